"""A randomizer: k-ary response by one of several coins that share the ε of a report."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from incrowd import checks
from incrowd.randomizers import KRR
from incrowd.randomizers.base import Domain, Estimate, Randomizer


class ToyCoin(Randomizer, frozen=True, tag="toy-coin"):
    """Each coin is k-ary response at its part of ε; only the first one is sent."""

    categories: Annotated[int, msgspec.Meta(description="how many categories a coin has")]
    coins: Annotated[int, msgspec.Meta(description="how many coins share the ε")] = 1

    domain: ClassVar[Domain] = "category"

    def __post_init__(self) -> None:
        Randomizer.__post_init__(self)
        checks.integer(self.coins, "coins", at_least=1)

    @property
    def thrown(self) -> KRR:
        """The coin whose side is sent."""
        return KRR(categories=self.categories, epsilon=self.epsilon / self.coins)

    @property
    def report_bytes(self) -> int:
        return self.thrown.report_bytes

    def randomize(self, values: Any, rng: np.random.Generator) -> Any:
        return self.thrown.randomize(values, rng)

    def estimate(self, reports: Any) -> Estimate:
        return self.thrown.estimate(reports)

    def blanket(self) -> Any:
        return self.thrown.blanket()
