"""A random crowd each round: people join by their own coin, and a shuffler forwards the reports."""

from incrowd.protocols.check_in.parameters import CheckInParameters
from incrowd.protocols.check_in.spec import CheckIn

__all__ = ["CheckIn", "CheckInParameters"]
