"""Scrambled queries: SQL and clustering that leak nothing through who talks to whom."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

__all__ = ["ScrambledQuery"]

__getattr__ = lazy_names(__name__, {"ScrambledQuery": "incrowd.protocols.scrambled_query.spec"})
