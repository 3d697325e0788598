"""The token: its content, its format in bytes, and the statistics with which it comes home.

A token carries the sum of the contributions so far: one number, one number per coordinate, or the
count of each category. Its size on the wire is fixed by public parameters, so that it tells nothing
about the contributions: a histogram travels as counts of all categories, or, if there are more
categories than contributions can ever name, as a list of those that were named, filled up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from incrowd.errors import ProtocolFailed
from incrowd.randomizers.base import Estimate, FloatArray, Randomizer
from incrowd.tasks.base import Collected

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

_NOBODY = 0xFFFFFFFF  # in place of a category, where a list of them is filled up
_PLACE = np.dtype([("category", "<u4"), ("count", "<u4")])


@dataclass(frozen=True, repr=False, kw_only=True)
class Carried(Collected):
    """The sum that all tokens together brought home; there are no single reports."""

    sampled: ClassVar[bool] = True

    total: FloatArray
    reports: int  # contributions in the total
    noise: float  # contributions' worth of noise in it, as ``Randomizer.from_tally`` wants it
    steps: int  # of the longest walk, those that came to nothing included
    crowd: int  # the fewest people among whom a holder was drawn
    losses: float | None
    """Largest Σ k²/m of any pair on a path, a published result counted; None if not known."""
    drawn: bool  # whether holders were drawn at random, rather than all in turn
    correlation: float = 1.0
    """Variance of a mean over a walk relative to one over independent draws (upper bound)."""

    @property
    def received(self) -> int:
        return self.reports

    @property
    def crowds(self) -> tuple[int, ...]:
        return (self.reports,)

    @property
    def people(self) -> int:
        return self.crowd

    def estimate(self, randomizer: Randomizer, *, joint: bool = False) -> Estimate:
        """Estimate from the sum; the variance includes the choice of holders.

        In a ``joint`` covariance uniform elements add to the variances alone, as if they were
        independent: their counts are opposed, so that errors of sums are no larger than stated.
        """
        if self.reports == 0:
            raise ProtocolFailed(
                "no contribution came home with a token, so there is nothing to estimate: give "
                "people more time, or a longer walk"
            )
        found = randomizer.from_tally(self.total, self.reports, self.noise)
        likely = found.on_simplex() if joint else np.zeros(0)
        covariance = None
        if joint:
            covariance = randomizer.frequency_covariance(likely) / self.reports
            covariance += np.diag(np.maximum(found.variance - np.diag(covariance), 0.0))
        if not self.drawn:
            return replace(found, covariance=covariance)
        # A share f of people has variance f(1 − f), and so has at most a number with this mean in
        # [0, 1]; a coordinate of a unit vector has at most 1 less its mean square.
        mean = np.clip(found.value, -1 if randomizer.domain == "vector" else 0, 1)
        between = 1 - mean**2 if randomizer.domain == "vector" else mean * (1 - mean)
        luck = self.correlation * between / self.reports
        if covariance is not None:
            spread = np.diag(likely) - np.outer(likely, likely)
            covariance += self.correlation * spread / self.reports
        return replace(found, variance=np.asarray(found.variance + luck), covariance=covariance)


def largest_known(losses: Sequence[float | None]) -> float | None:
    """Return the largest of the losses of several tokens; None unless all are known."""
    known = [loss for loss in losses if loss is not None]
    return max(known) if known and len(known) == len(losses) else None


@dataclass(frozen=True)
class TokenFormat:
    """The format of the sum in a token, always of the same number of bytes."""

    width: int  # numbers in it: 1, the coordinates, or the categories
    counts: bool  # whether they are counts of categories
    most: int  # contributions in it at most

    @staticmethod
    def of(randomizer: Randomizer, most: int) -> TokenFormat:
        """Return the format of sums of this randomizer's reports."""
        if randomizer.domain == "category":
            return TokenFormat(int(getattr(randomizer, "categories")), True, most)  # noqa: B009
        return TokenFormat(int(getattr(randomizer, "dimension", 1)), False, most)

    @property
    def sparse(self) -> bool:
        """Whether only the categories that were named travel."""
        return self.counts and self.most * _PLACE.itemsize < self.width * 4

    @property
    def nbytes(self) -> int:
        """The size of every token."""
        if self.sparse:
            return self.most * _PLACE.itemsize
        return self.width * (4 if self.counts else 8)

    def empty(self) -> FloatArray:
        """Return the sum of nothing."""
        return np.zeros(self.width)

    def pack(self, total: FloatArray) -> bytes:
        """Return the bytes of a sum."""
        flat = np.ravel(total)
        if not self.counts:
            return np.asarray(flat, "<f8").tobytes()
        if not self.sparse:
            return np.asarray(flat, "<u4").tobytes()
        named = np.flatnonzero(flat)
        places = np.full(self.most, _NOBODY, _PLACE)
        places["category"][: named.size] = named
        places["count"][: named.size] = flat[named]
        return places.tobytes()

    def unpack(self, packed: bytes) -> FloatArray:
        """Return the sum in these bytes; ``ValueError`` when they are none."""
        if len(packed) != self.nbytes:
            raise ValueError(f"a token has {self.nbytes} bytes, not {len(packed)}")
        if not self.sparse:
            total = np.frombuffer(packed, "<u4" if self.counts else "<f8").astype(np.float64)
            if not np.isfinite(total).all():
                raise ValueError("a token holds finite numbers")
            return total
        places = np.frombuffer(packed, _PLACE)
        places = places[places["category"] != _NOBODY]
        if places.size and int(places["category"].max()) >= self.width:
            raise ValueError("a token names a category that there is not")
        total = self.empty()
        np.add.at(total, places["category"], places["count"])
        return total


def token_format(protocol: TokenWalk) -> TokenFormat:
    """Return the format of a token, with room for the uniform elements of a ring."""
    most = protocol.length
    if protocol.topology == "ring" and protocol.randomizer.uniform_blanket:
        most = round(protocol.ring_noise)
    return TokenFormat.of(protocol.randomizer, most)
