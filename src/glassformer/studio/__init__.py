"""The browser page that looks inside models, and the routes that feed it."""
