"""Actors of network shuffling, and the timetable of their rounds."""
