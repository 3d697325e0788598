"""Actors of a token walk, their messages, and the token as bytes."""
