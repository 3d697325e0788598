"""A random crowd each round: people join by their own coin, and a shuffler forwards the reports."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.check_in.spec import CheckIn

__all__ = ["CheckIn"]

__getattr__ = lazy_names(__name__, {"CheckIn": "incrowd.protocols.check_in.spec"})
