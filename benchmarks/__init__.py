"""Speed, measured side by side with the peers in one run; `python -m benchmarks` runs all of it."""
