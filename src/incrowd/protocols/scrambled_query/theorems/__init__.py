"""Theorems on scrambled traffic: the exact sum, caps, flooding, occupancy, group privacy."""
