"""Optimal local hashing: hash the category into a few buckets, then answer the bucket by k-RR.

The family is h(x) = ((A·x + B) mod p) mod g with p = 2³¹ − 1, A uniform in 1…p−1 and B in 0…p−1.
For two distinct categories the pair of residues is uniform over the p(p − 1) ordered pairs of
distinct residues, so the collision probability is the exact rational

    c = Σ_j n_j(n_j − 1) / (p(p − 1)),

n_j being the number of residues in bucket j, the same for every pair. Debiasing and law use this c,
not 1/g: the estimator is unbiased for the family that is really drawn.

With m = g − 1 the variance of rare categories is proportional to (E + m)²/m, least at m = E; the
better of the two integers around it is taken ("Locally Differentially Private Protocols for
Frequency Estimation", Wang, Blocki, Li, Jha).

Law. A report is (A, B, y) with the hash drawn independently of the data. Given the hash, R_x is E/z
at y = h(x) and 1/z elsewhere, z = E + g − 1. The blanket with 1/z everywhere lies below every R_x;
under it (E, 1) and (1, E) have mass (1 − c)/z each, (E, E) c/z and (1, 1) the rest of g/z. All
pairs have the same law, which is symmetric: one pair dominates at every ε, in both directions. See
``docs/theory/worst_pairs.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._categorical import MERSENNE, Categorical, from_support
from incrowd.randomizers._lattice import keep_probability, response_odds
from incrowd.randomizers.base import Estimate, Reports
from incrowd.randomizers.law import PairLaw
from incrowd.randomizers.response import respond

_MOST_BUCKETS = 1 << 16


class OLH(Categorical, frozen=True, tag="olh"):
    """Optimal local hashing; a report is a row ``(A, B, bucket)`` of 32-bit words."""

    report_bytes: ClassVar[int] = 12

    @property
    def buckets(self) -> int:
        """Number g of buckets of least variance, at most 65,536."""
        top = math.exp(self.epsilon)
        near = max(1, min(math.floor(top), _MOST_BUCKETS - 2))
        return 1 + min((near, near + 1), key=lambda m: (top + m) ** 2 / m)

    @property
    def collision(self) -> Fraction:
        """Exact probability that two distinct categories share a bucket."""
        low, extra = divmod(MERSENNE, self.buckets)
        same = extra * (low + 1) * low + (self.buckets - extra) * low * (low - 1)
        return Fraction(same, MERSENNE * (MERSENNE - 1))

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw a hash for every person and randomize the bucket of the category."""
        codes = _inputs.codes(values, self.categories, rng).astype(np.uint64)
        g = self.buckets
        reports = np.empty((codes.size, 3), np.uint32)
        reports[:, 0] = rng.integers(1, MERSENNE, codes.size, dtype=np.uint32)
        reports[:, 1] = rng.integers(0, MERSENNE, codes.size, dtype=np.uint32)
        residue = (reports[:, 0] * codes + reports[:, 1]) % np.uint64(MERSENNE)
        reports[:, 2] = respond((residue % np.uint64(g)).astype(np.int64), self.epsilon, g, rng)
        return reports

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate frequencies from the reports that support each category."""
        from incrowd.randomizers import _kernels

        g = self.buckets
        reports = _inputs.received(reports, 3, MERSENNE).astype(np.uint32, copy=False)
        if int(reports[:, 0].min()) < 1 or int(reports[:, 2].max()) >= g:
            raise InvalidParameter(
                "reports must have a multiplier of at least 1 and a bucket below "
                f"{g}: these come from another randomizer"
            )
        counts = _kernels.hash_support(np.ascontiguousarray(reports), self.categories, g, MERSENNE)
        return from_support(counts, len(reports), *self.support_probabilities())

    def support_probabilities(self) -> tuple[float, float]:
        keep = keep_probability(self.epsilon, self.buckets)
        elsewhere = (1 - keep) / self.buckets
        own = keep + elsewhere
        c = float(self.collision)
        return own, c * own + (1 - c) * elsewhere

    def blanket(self) -> PairLaw:
        """(E, 1), (1, E): (1 − c)/z each; (E, E): c/z; (1, 1): ((1 − c)(g − 2) + c(g − 1))/z."""
        top, c, rest, z = self._weights()
        mass = np.array([1 - c, 1 - c, c, rest]) / z
        return PairLaw.of([top, 1.0, top, 1.0], [1.0, top, top, 1.0], mass)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at x1, or all at x0, which needs the law of pairs of buckets only."""
        top, c, rest, z = self._weights()
        mass = np.array([1 - c, (1 - c) * top, c * top, rest]) / z
        at_x1 = PairLaw.of([top, 1 / top, 1.0, 1.0], 1.0, mass)
        return at_x1, at_x1.swapped()

    def _weights(self) -> tuple[float, float, float, float]:
        """E as drawn, c, the weight of (1, 1), and z."""
        g, c = self.buckets, float(self.collision)
        top = response_odds(self.epsilon, g)
        return top, c, (1 - c) * (g - 2) + c * (g - 1), top + g - 1
