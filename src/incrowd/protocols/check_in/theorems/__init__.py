"""Theorems on check-ins: known rates that differ, crowds known by counts, and noisy sums."""
