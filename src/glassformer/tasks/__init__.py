"""Tasks: one file each, from examples to batches, losses, metrics and predictions."""
