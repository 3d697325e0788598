"""Learners to compare with: a trusted curator, everyone's own noise, no privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.tasks.learning import channels
from incrowd.tasks.learning.sgd import SGD


@dataclass(kw_only=True, eq=False)
class PlainSGD(SGD):
    """No privacy: the best that the same training can do. ``clip`` may be left out."""

    clip: float | None = None

    def channel(self) -> channels.Channel:
        return channels.NoPrivacy(self.clip)

    def epsilon(self, delta: float) -> float:
        checks.delta(delta)
        return math.inf


@dataclass(kw_only=True, eq=False)
class CentralSGD(SGD):
    """A trusted curator holds all records: clipped gradients, one Gaussian noise of σ·clip a round.

    The guarantee is for replace-one neighbours, and for a view of the model after every round.
    """

    clip: float
    sigma: float

    def channel(self) -> channels.Channel:
        return channels.CentralNoise(self.clip, self.sigma)


@dataclass(kw_only=True, eq=False)
class LocalSGD(SGD):
    """No one is trusted: everyone randomizes their own clipped gradient, and all reports are seen.

    With ``epsilon0``, the PrivUnit reports of :class:`incrowd.CheckInSGD`, without a crowd to hide
    in; with ``sigma``, Gaussian noise of σ·clip on each gradient, in at most ``cap`` rounds.
    """

    clip: float
    epsilon0: float | None = None
    sigma: float | None = None
    projection: int | None = None
    cap: int | None = None

    def channel(self) -> channels.Channel:
        if self.sigma is not None and self.epsilon0 is None:
            if self.projection is not None:
                raise InvalidParameter("projection is for reports: give epsilon0, not sigma")
            return channels.LocalNoise(self.clip, self.sigma, self.cap)
        if self.epsilon0 is not None and self.sigma is None:
            if self.cap is not None:
                problem = "cap is for Gaussian noise: give sigma, not epsilon0"
                raise InvalidParameter(problem, field="cap")
            return channels.LocalReports(self.clip, self.epsilon0, self.projection)
        choice = "epsilon0, for reports by PrivUnit, or sigma, for gradients with Gaussian noise"
        raise InvalidParameter(f"give {choice}: one of the two")
