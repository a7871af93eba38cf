"""Experiments, one file each: a question, a grid of cells, and what the report shows of them."""
