"""Comparisons: several ways to do one job, run side by side and measured alike."""
