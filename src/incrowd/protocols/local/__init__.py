"""No crowd at all: every report goes straight to the curator. One end of the spectrum."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.local.spec import Local

__all__ = ["Local"]

__getattr__ = lazy_names(__name__, {"Local": "incrowd.protocols.local.spec"})
