"""Actors of a scrambled query: sources, scramblers, compute nodes, and the curator."""
