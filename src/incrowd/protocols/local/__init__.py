"""No crowd at all: every report goes straight to the curator. One end of the spectrum."""

from incrowd.protocols.local.spec import Local, LocalParameters

__all__ = ["Local", "LocalParameters"]
