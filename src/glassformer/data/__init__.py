"""Data: files read with care, splits, batches by token budget, masking, and a small world that needs no download."""
