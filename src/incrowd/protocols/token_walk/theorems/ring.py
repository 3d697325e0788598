"""A token on a ring: the steps that add noise, and the guarantee that follows.

People 0, …, n − 1 hold the token one after the other, lap after lap. Between two visits of an
observer lie n − 1 steps of others, each person once. If every (n − 1)-th step adds noise, counted
from the first, exactly one of them does, and it is not the observer's: after any subtraction each
contribution is hidden behind one noise. ``split_noise`` divides that noise over all steps.

If the result is published, the last step always adds a noise too, as the steps after an observer's
last visit need not hold one. In histograms every contribution is a k-ary response: n − 1 reports
between two visits are shuffled by being counted. Before the first visit there can be fewer; uniform
elements, put into the token at the start (and, when published, at the end), hide them. Two people
on both sides of a third see all of the third's contributions: no colluders are allowed. See
``docs/theory/token_ring.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.composition import ComposedProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.shuffle import ShuffleProfile
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.law import PairLaw

_FEWEST = 3
_UP = 1 + 2.0**-51


@dataclass(frozen=True)
class Ring:
    """``laps`` rounds of a token over ``n`` people; steps are numbered 0, …, laps·n − 1."""

    n: int
    laps: int
    published: bool = False
    split_noise: bool = False

    def __post_init__(self) -> None:
        checks.crowd(self.n, at_least=_FEWEST)
        checks.integer(self.laps, "laps", 1)

    @property
    def steps(self) -> int:
        """Contributions that the token collects."""
        return self.laps * self.n

    def noise_scale(self, step: int) -> float:
        """Return the standard deviation of the noise of this step, as a multiple of σ."""
        if checks.integer(step, "step", 0) >= self.steps:
            raise InvalidParameter(f"step must be below laps·n = {self.steps}, got {step}")
        if step == 0 or (self.published and step == self.steps - 1):
            return 1.0
        if self.split_noise:
            return _UP / math.sqrt(self.n - 1)
        return float(step % (self.n - 1) == 0)

    @property
    def noises(self) -> int:
        """Steps that add noise."""
        if self.split_noise:
            return self.steps
        regular, rest = divmod(self.steps - 1, self.n - 1)
        return regular + 1 + (self.published and rest != 0)

    @property
    def variance(self) -> float:
        """Variance of the noise in the final token, as a multiple of σ²."""
        if not self.split_noise:
            return float(self.noises)
        whole = 1 + self.published
        return whole + (self.steps - whole) / (self.n - 1)

    def profile(self, one: Profile) -> Profile:
        """Return the profile of any peer's view of another, from that of one contribution."""
        shift = one.normal_shift
        if shift is not None:
            # Shifts of independent normal laws add up as squares.
            return GaussianProfile(shift * math.sqrt(self.laps) * _UP) if self.laps > 1 else one
        if self.split_noise:
            raise InvalidParameter(
                "only Gaussian noise can be spread over the steps: give a GaussianProfile, or a "
                "ring with split_noise=False"
            )
        return ComposedProfile(((one, self.laps),))

    def uniform_elements(self, gamma: float) -> int:
        """Return the number of uniform elements that hide the first reports: a lap's mean."""
        return math.ceil(checks.probability(gamma, "gamma") * self.n)

    def histogram_profile(self, randomizer: Randomizer) -> Profile:
        """Return the profile of any peer's view of another for k-ary responses."""
        if not randomizer.uniform_blanket:
            raise InvalidParameter(
                "randomizer must have a uniform blanket, as KRR(categories=4, epsilon=1.0) has: "
                f"{randomizer.kind} has none"
            )
        law, alone = randomizer.blanket(), LocalProfile(randomizer)
        # All but one of the observations of a pair are whole blocks; the other one, before the
        # first visit or after the last, is hidden by the uniform elements alone at worst. Among
        # these the law is all blanket, of mass one.
        gamma = float(np.sum(law.mass))
        uniform = PairLaw.of(law.a * gamma, law.b * gamma, law.mass / gamma)
        short = ShuffleProfile(uniform, self.uniform_elements(law.gamma) + 1, alone)
        if self.laps == 1:
            return short
        block = ShuffleProfile(law, self.n - 1, alone, randomizer.attack())
        return ComposedProfile(((block, self.laps - 1), (short, 1)))
