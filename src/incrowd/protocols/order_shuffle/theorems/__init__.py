"""Theorems on ordered shuffling: α, sensitivity, displacement, and what is preserved."""
