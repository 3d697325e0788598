"""Composition over rounds: curves become privacy-loss distributions, which convolve.

A curve of upper bounds δ(ε₀) ≥ δ(ε₁) ≥ … on a grid is joined by straight lines in t = e^ε. The
result lies above the true convex curve everywhere and is the exact curve of a discrete pair whose
losses are the grid points ("connecting the dots", Doroshenko et al.): that pair dominates, so its
losses may be convolved, for rounds chosen adaptively too. The curve beyond the grid is put on an
outcome that only the first distribution has (infinite loss). ``dp-accounting`` convolves; proofs
are in ``docs/theory/composition.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import NumericalFloor
from incrowd.privacy.guarantee import Profile

__all__ = ["ComposedProfile", "LossDistribution", "connect_the_dots"]

_NEGLIGIBLE = 1e-17
"""Curves are followed until δ is this small; the rest becomes infinite loss."""
_NOISE = 1e-14
"""Rounding of the fast convolution, per round, charged to δ; ten times that is the floor."""
_MOST_POINTS = 2_000_000
_MOST_LOSS = 600.0
_SNAP = 1e-9
"""Grid points this close, relatively, to the greatest loss count as being there."""


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Losses on the grid ``interval·(first + i)`` with chances ``mass``, and ``infinite`` mass."""

    interval: float
    first: int
    mass: NDArray[np.float64]
    infinite: float
    pessimistic: bool = True
    """Whether losses err upwards (for bounds) or downwards (for attacks)."""

    def to_dp_accounting(self) -> Any:
        """The same as a ``dp_accounting`` privacy-loss distribution."""
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

        return privacy_loss_distribution.PrivacyLossDistribution(
            pld_pmf.DensePLDPmf(
                self.interval,
                self.first,
                self.mass,
                self.infinite,
                pessimistic_estimate=self.pessimistic,
            )
        )


def connect_the_dots(
    curve: Callable[[float], float], interval: float, greatest_loss: float = math.inf
) -> LossDistribution:
    """The discrete pair whose curve joins ``curve`` at the grid points by straight lines in e^ε.

    The curve is zero from ``greatest_loss`` on.
    """
    last = _reach(curve, interval, greatest_loss)
    losses = interval * np.arange(-last, last + 1)
    height = np.array([curve(float(loss)) for loss in losses])
    if losses[-1] >= greatest_loss * (1 - _SNAP):
        height[-1] = 0.0
    t = np.exp(losses)
    # Slopes between neighbours; left of the grid the chord from (0, 1), right of it flat.
    slope = np.concatenate([[(height[0] - 1) / t[0]], np.diff(height) / np.diff(t), [0.0]])
    # A curve of upper bounds may be concave by a rounding: raising such a mass to zero only raises
    # the curve, which is Σ (t_i − t)₊ · bend_i + infinite.
    bend = np.maximum(np.diff(slope), 0.0)
    return LossDistribution(interval, -last, bend * t, float(height[-1]))


def _reach(curve: Callable[[float], float], interval: float, greatest_loss: float) -> int:
    """The number of grid points after which the curve is zero or negligible."""
    most = _MOST_LOSS / interval
    if math.isfinite(greatest_loss):
        most = min(most, math.ceil(greatest_loss / interval * (1 - _SNAP)))
    if most > _MOST_POINTS:
        raise NumericalFloor(
            f"a grid of {interval:.1e} needs {most:.0f} points to reach a loss of "
            f"{interval * most:.3g}: compose profiles of more similar size"
        )
    first, last = 0, int(most)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if curve(interval * middle) > _NEGLIGIBLE else (first, middle)
    return last


@dataclass(frozen=True)
class ComposedProfile(Profile):
    """Several profiles, each used in a number of rounds; the choice of rounds may be adaptive.

    Where every part has a cap (the curve without amplification), the composition of the caps is
    proven as well, and the smaller of the two is reported.
    """

    parts: tuple[tuple[Profile, int], ...]

    def __post_init__(self) -> None:
        """Refuse an empty composition and rounds that are no whole numbers."""
        for _, rounds in self.parts:
            checks.integer(rounds, "rounds", 1)
        if not self.parts:
            raise ValueError("a composition needs at least one part")

    def delta(self, epsilon: float) -> float:
        """δ of the convolved losses."""
        if (single := self._single) is not None:
            return single.delta(epsilon)
        own = float(self.distribution.get_delta_for_epsilon(epsilon)) + self._noise
        return min(1.0, own, self._caps.delta(epsilon) if self._caps else 1.0)

    def epsilon(self, delta: float) -> float:
        """ε of the convolved losses at this δ, rounded up."""
        checks.delta(delta)
        if (single := self._single) is not None:
            return single.epsilon(delta)
        if delta < 10 * self._noise:
            raise NumericalFloor(
                f"delta = {delta!r} is below {10 * self._noise:.1e}, the least that this many "
                "composed rounds can certify: ask for a larger delta or fewer rounds"
            )
        own = float(self.distribution.get_epsilon_for_delta(delta - self._noise))
        caps = self._caps.epsilon(delta) if self._caps else math.inf
        return min(math.nextafter(own * (1 + 1e-12), math.inf), caps, self.greatest_loss)

    def lower(self, delta: float) -> float | None:
        """The strongest attack on any part over its rounds: other parts never tell less."""
        found = [self._part_lower(part, rounds, delta) for part, rounds in self.parts]
        return max((each for each in found if each is not None), default=None)

    def _part_lower(self, part: Profile, rounds: int, delta: float) -> float | None:
        best = part.lower(delta)
        if rounds > 1 and best is not None:
            for losses in part.attained():
                many = losses.to_dp_accounting().self_compose(rounds)
                found = float(many.get_epsilon_for_delta(delta + self._noise))
                best = max(best, found * (1 - 1e-12))
        return best

    @property
    def greatest_loss(self) -> float:
        """Losses add up."""
        return sum(rounds * part.greatest_loss for part, rounds in self.parts)

    @property
    def interval(self) -> float:
        """The finest grid that any part asks for."""
        return min(part.interval for part, _ in self.parts)

    def losses(self, interval: float) -> LossDistribution:
        """A distribution that dominates the whole composition."""
        return connect_the_dots(self.delta, interval, self.greatest_loss)

    @cached_property
    def distribution(self) -> Any:
        """The composed ``dp_accounting`` privacy-loss distribution."""
        interval = self.interval
        composed: Any = None
        for part, rounds in self.parts:
            one = part.losses(interval).to_dp_accounting()
            many = one.self_compose(rounds) if rounds > 1 else one
            composed = many if composed is None else composed.compose(many)
        return composed

    @property
    def _noise(self) -> float:
        return _NOISE * (1 + sum(rounds for _, rounds in self.parts))

    @property
    def _single(self) -> Profile | None:
        (part, rounds), *rest = self.parts
        return part if rounds == 1 and not rest else None

    @cached_property
    def _caps(self) -> ComposedProfile | None:
        caps = tuple((getattr(part, "cap", None), rounds) for part, rounds in self.parts)
        known = tuple((cap, rounds) for cap, rounds in caps if cap is not None)
        return ComposedProfile(known) if len(known) == len(caps) else None
