"""Reports of which nobody says how they were drawn, so that nothing is promised about them alone.

For accounting only: what is proven about how reports travel holds whatever they say, and can be
stated without an ε0. Nobody can draw from it.
"""

from __future__ import annotations

import math
from typing import ClassVar

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import Domain, Randomizer


class Unstated(Randomizer, frozen=True, kw_only=True, tag="unstated"):
    """Has an infinite ε0: a report may tell everything."""

    epsilon: float = math.inf

    domain: ClassVar[Domain] = "category"
    drawable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse an ε0: whoever knows one knows the randomizer."""
        if self.epsilon != math.inf:
            raise InvalidParameter(
                "epsilon of an unstated randomizer is infinite: name another", field="epsilon"
            )

    @property
    def report_bytes(self) -> int:
        """Unknown; the fewest that a report can have."""
        return 1

    def local_delta(self, epsilon: float) -> float:
        """One, whatever the ε."""
        del epsilon
        return 1.0
