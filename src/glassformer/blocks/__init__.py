"""The parts that every architecture is built from; they import torch and nothing of ours."""
