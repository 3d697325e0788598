"""Actors and their surroundings: context, delivery, cover traffic and messages on the wire."""
