"""Theorems on token walks: hidden and public paths, rings, graphs, and moments of visits."""
