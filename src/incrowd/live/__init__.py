"""Surveys between real machines: keys, sealed cells, and the parties that carry them.

Nobody in the middle can open, alter, repeat or tell apart what two parties say: every message
travels in cells of one size (``cells``), sealed from end to end (``links``) under keys that an
authority vouches for (``keys``, ``authority``). Whatever arrives is refused for one of a closed
set of reasons (``reasons``), and refusing changes nothing.
"""
