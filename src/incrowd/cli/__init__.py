"""The command line: ``incrowd run``, ``account``, ``calibrate``, ``config`` and ``graph``."""

from incrowd.cli.app import main

__all__ = ["main"]
