"""Reports of an unknown randomizer, without any local guarantee.

For accounting only: guarantees about the routes of reports hold whatever their content, and can be
stated without an ε0.
"""

from __future__ import annotations

import math
from typing import ClassVar

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import Domain, Randomizer


class Unstated(Randomizer, frozen=True, kw_only=True, tag="unstated"):
    """A randomizer with infinite ε0: a report may reveal everything."""

    epsilon: float = math.inf

    domain: ClassVar[Domain] = "category"
    drawable: ClassVar[bool] = False
    report_bytes: ClassVar[int] = 1  # the least that a report can take

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            raise InvalidParameter(
                "epsilon of an unstated randomizer is infinite: name another", field="epsilon"
            )

    def local_delta(self, epsilon: float) -> float:
        """Return one at every ε."""
        del epsilon
        return 1.0
