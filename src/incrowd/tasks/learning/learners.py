"""What learning through a crowd is compared with: a trusted curator, nobody trusted, no privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from incrowd import checks
from incrowd.tasks.learning.channels import CentralNoise, Channel, LocalReports, NoPrivacy
from incrowd.tasks.learning.sgd import SGD

__all__ = ["CentralSGD", "LocalSGD", "PlainSGD"]


@dataclass(kw_only=True, eq=False)
class PlainSGD(SGD):
    """No privacy: the best that the same training can do. ``clip`` may be left out."""

    clip: float | None = None

    def channel(self) -> Channel:
        """The plain average."""
        return NoPrivacy(self.clip)

    def epsilon(self, delta: float) -> float:
        """Infinite: nothing is hidden."""
        checks.delta(delta)
        return math.inf


@dataclass(kw_only=True, eq=False)
class CentralSGD(SGD):
    """A trusted curator holds all records: clipped gradients, one Gaussian noise of σ·clip a round.

    The guarantee is for replace-one neighbours, against whoever sees the model after every round.
    """

    clip: float
    sigma: float

    def channel(self) -> Channel:
        """The curator's noisy sum."""
        return CentralNoise(self.clip, self.sigma)


@dataclass(kw_only=True, eq=False)
class LocalSGD(SGD):
    """Nobody is trusted: everyone randomizes their own clipped gradient, and all reports are seen.

    The same PrivUnit reports as in :class:`incrowd.CheckInSGD`, without a crowd to hide in.
    """

    clip: float
    epsilon0: float
    projection: int | None = None

    def channel(self) -> Channel:
        """Reports in the open."""
        return LocalReports(self.clip, self.epsilon0, self.projection)
