"""Plans of a scrambled query: the model, how parts depend on a tuple, and drawings."""
