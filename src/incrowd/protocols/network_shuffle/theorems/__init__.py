"""Theorems on network shuffling: mixing of walks, routes to its numbers, attendance, attacks."""
