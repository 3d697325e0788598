"""Samplers of Mallows permutations, under the distances of Kendall and of Hamming."""
