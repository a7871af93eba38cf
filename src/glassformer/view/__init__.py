"""Self-contained pictures: data in, text out."""
