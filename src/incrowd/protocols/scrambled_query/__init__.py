"""Scrambled queries: SQL and clustering that leak nothing through who talks to whom."""

from incrowd.protocols.scrambled_query.parameters import ScramblerParameters
from incrowd.protocols.scrambled_query.spec import ScrambledQuery

__all__ = ["ScrambledQuery", "ScramblerParameters"]
