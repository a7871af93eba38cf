"""The browser page that looks inside models, and the routes that feed it."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # this machine alone
