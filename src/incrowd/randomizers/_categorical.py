"""Base of the frequency oracles: the categories, and the estimator from support counts.

A report *supports* a set of categories. A person's own category is supported with probability
``p``, any other with probability ``q < p``, independently between people. With ``C_x`` the number
of reports that support ``x`` among ``n``,

    f̂_x = (C_x/n − q)/(p − q)

is unbiased for the fraction ``f_x`` of the respondents. The only randomness is that of the
randomizer: given the data the variance of C_x/n is (f_x·p(1−p) + (1−f_x)·q(1−q))/n, and putting f̂_x
for f_x turns that into (pq + (1 − p − q)·C_x/n)/n, which is unbiased too and never negative.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers._lattice import check_realisable
from incrowd.randomizers.base import Domain, Estimate, Randomizer

MERSENNE = 2**31 - 1
"""The prime modulus of the hash family; no randomizer takes more categories than this."""


class Categorical(Randomizer, frozen=True):
    """Base of the randomizers of one category out of ``categories``."""

    categories: int

    domain: ClassVar[Domain] = "category"

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        categories = checks.integer(self.categories, "categories", 2)
        if categories > MERSENNE:
            raise InvalidParameter(
                f"categories must be at most {MERSENNE}, got {categories}: group them first",
                field="categories",
            )
        # 3.0 and numpy scalars are allowed, but array sizes and JSON need Python's own numbers.
        msgspec.structs.force_setattr(self, "categories", categories)
        msgspec.structs.force_setattr(self, "epsilon", float(self.epsilon))

    def support_probabilities(self) -> tuple[float, float]:
        """(p, q): the chance to support the own category and any other, as drawn."""
        raise NotImplementedError

    def noise(self) -> float:
        p, q = self.support_probabilities()
        even = 1 / self.categories
        return math.sqrt(even * p * (1 - p) + (1 - even) * q * (1 - q)) / (p - q)


def from_support(counts: NDArray[Any], reports: int, p: float, q: float) -> Estimate:
    """Return unbiased frequencies and their variances from support counts."""
    share = counts / reports
    noise = p * q + (1 - p - q) * share
    return Estimate((share - q) / (p - q), noise / (reports * (p - q) ** 2), reports)
