"""The kernels themselves, in Triton's language, which is Python in its looks alone: no types, and no rules of ours.

Each is imported when it is first launched, by the file of its name one folder up, which states its contract.
"""
