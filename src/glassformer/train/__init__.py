"""Training: the loop, optimisers and schedules, checkpoints, many processes."""
