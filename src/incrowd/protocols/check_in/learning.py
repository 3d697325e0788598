"""Learning by shuffled check-in: each round a random crowd sends its gradients.

Two ways for the gradients to travel, both after each person's own coin with probability ``rate``:

* **Reports.** Each person's clipped gradient is put on a sphere and randomized by PrivUnit with
  ``epsilon0``; a shuffler forwards the reports of the round in random order. A record enters a
  round only through the input of the common randomizer, so this is a round of
  :class:`~incrowd.protocols.check_in.CheckIn`, whose curve holds for every pair of inputs, whatever
  the parameters are; adaptive composition lets these depend on earlier rounds.
* **Sums.** Each person adds Gaussian noise of σ·clip to the clipped gradient, and only the sum of
  the round and the number of people in it arrive: the noise in a sum of k is √k·σ·clip.

Liew, Hasegawa and Takahashi, "Privacy Amplification via Shuffled Check-Ins"; proofs are in
``docs/theory/check_in.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from incrowd.errors import InvalidParameter
from incrowd.privacy import Guarantee
from incrowd.protocols.check_in.spec import CheckIn
from incrowd.protocols.check_in.theorems.secure_aggregation import DistributedCheckIn
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning.channels import Channel, Crowd, VectorReports, check_clip, noisy_mean
from incrowd.tasks.learning.gradients import Batch
from incrowd.tasks.learning.sgd import SGD


@dataclass(frozen=True)
class CheckInReports(VectorReports):
    """PrivUnit reports of those who checked in, in random order."""

    def protocol(self, crowd: Crowd, rounds: int) -> CheckIn:
        """Return the check-in whose rounds carry the gradients."""
        return CheckIn(self.randomizer(crowd.size), n=crowd.people, rate=crowd.rate, rounds=rounds)

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        return self.protocol(crowd, rounds).guarantee()


@dataclass(frozen=True)
class SummedNoise(Channel):
    """Everyone's own Gaussian noise; only the sum and the number of people arrive."""

    clip: float
    sigma: float
    counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_clip(self.clip)
        self.protocol(Crowd(people=1, rate=1.0, size=1), rounds=1)

    def average(self, batch: Batch, _crowd: Crowd, seeds: Seeds, number: int) -> FloatArray | None:
        """Average the noisy gradients; their noises are drawn as one sum."""
        return noisy_mean(batch, self.clip, self.sigma, seeds.generator("noise", number))

    def protocol(self, crowd: Crowd, rounds: int) -> DistributedCheckIn:
        """Return the sums that carry the gradients."""
        return DistributedCheckIn(crowd.people, crowd.rate, rounds, self.sigma, self.clip)

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        return self.protocol(crowd, rounds).guarantee()

    def describe(self) -> dict[str, Any]:
        return {"channel": "summed", "clip": self.clip, "sigma": self.sigma}


@dataclass(kw_only=True, eq=False)
class CheckInSGD(SGD):
    """Train on people who check in at random; give ``epsilon0`` for reports or ``sigma`` for sums.

    ``projection`` keeps reports in a random subspace of that many dimensions.
    """

    clip: float
    epsilon0: float | None = None
    sigma: float | None = None
    projection: int | None = None

    def channel(self) -> CheckInReports | SummedNoise:
        if self.epsilon0 is not None and self.sigma is None:
            return CheckInReports(self.clip, self.epsilon0, self.projection)
        if self.sigma is not None and self.epsilon0 is None:
            if self.projection is not None:
                raise InvalidParameter("projection is for reports: give epsilon0, not sigma")
            return SummedNoise(self.clip, self.sigma)
        raise InvalidParameter(
            "give epsilon0, for randomized reports through a shuffler, or sigma, for noisy "
            "gradients of which only the sum arrives: one of the two"
        )

    @property
    def protocol_(self) -> CheckIn | DistributedCheckIn:
        """Check-in of the planned rounds, with its other views and its cost."""
        _, crowd = self._held()
        return cast(CheckInReports | SummedNoise, self._channel).protocol(crowd, self._planned)
