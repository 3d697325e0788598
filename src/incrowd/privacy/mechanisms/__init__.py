"""Guarantees of single mechanisms that several protocols build on: local reports, a shuffle."""
