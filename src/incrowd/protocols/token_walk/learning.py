"""Learning by a token: the model goes from person to person, and each takes a noisy step.

In every step the token θ is with one person, drawn uniformly from all n, who moves it by

    θ ← Π(θ − η·(g + Z + penalty(θ))),     Z normal with σ·clip in each coordinate,

where g is the mean gradient of the person's own records, clipped, and Π an optional projection on
a ball. No party holds all records, and only the holder knows θ at that moment.

* **Hidden path**: people learn neither from whom the token comes nor where it goes. A peer's view
  is a part of all steps without their owners, and those are T uses of the noise on a random
  person's gradient. Nothing is assumed of the loss or the step size, and momentum and averages are
  functions of the steps: the token carries them.
* **Public path**: everyone may know the path. The protection is the noise of the holders in
  between, if a step never brings two models further apart: the loss is convex and β-smooth, the
  step η constant and at most 2/β. Each record's own gradient is clipped, which keeps a loss of one
  margin convex and no less smooth; clipping the mean of several would not. Anyone adds a gradient
  at most ``cap`` times, and noise alone afterwards, which others rely on.

From "Privacy Amplification by Decentralization" by Cyffers and Bellet, with its theorems replaced;
proofs are in ``docs/theory/token_walk.md`` and ``docs/theory/token_graph.md``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy import Guarantee
from incrowd.protocols.settings import refuse
from incrowd.protocols.token_walk.spec import TokenWalk
from incrowd.randomizers import Gaussian, GaussianVector
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning.channels import Channel, Crowd, check_cap, check_clip, noise_apart
from incrowd.tasks.learning.gradients import Batch
from incrowd.tasks.learning.sgd import SGD

_ROUNDED = 1 + 1e-12  # records that were scaled to a length may be longer by rounding


@dataclass(frozen=True)
class TokenNoise(Channel):
    """The holder's clipped gradient with noise; beyond the cap, the noise alone."""

    clip: float
    sigma: float
    path: Literal["hidden", "public"]
    cap: int | None
    published: bool
    counted: ClassVar[bool] = False
    takes_one: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_clip(self.clip)
        check_cap(self.cap)
        noise_apart(self.sigma)
        unknown = self.path not in ("hidden", "public")
        refuse(unknown, f"path must be hidden or public, got {self.path!r}")
        checks.instance(self.published, bool, "published", "True")
        refuse(
            self.path == "public" and self.cap is None,
            "cap must be given with a public path: how often one person adds a gradient at most",
        )
        self.protocol(Crowd(people=3, rate=1 / 3, size=1, one=True), rounds=1)

    @property
    def most_rounds(self) -> int | None:
        return self.cap

    @property
    def record_clip(self) -> float | None:
        """The clip of each record on a public path, so that losses stay convex."""
        return self.clip if self.path == "public" else None

    @cached_property
    def noise(self) -> Gaussian:
        """The noise, as that of a number in [0, 1]: two clipped gradients are 2·clip apart."""
        return noise_apart(self.sigma)

    def average(self, batch: Batch, crowd: Crowd, seeds: Seeds, number: int) -> FloatArray:
        noise = seeds.generator("noise", number).standard_normal(crowd.size)
        return np.asarray(batch.summed(self.clip) + 2 * self.noise.sigma * self.clip * noise)

    def protocol(self, crowd: Crowd, rounds: int) -> TokenWalk:
        """Return the walk whose contributions are the steps."""
        noise = self.noise
        vector = GaussianVector(epsilon=noise.epsilon, delta=noise.delta, dimension=crowd.size)
        return TokenWalk(
            vector, n=crowd.people, steps=rounds, contribution="sgd", path=self.path,
            cap=self.cap or 0, published=self.published,
        )  # fmt: skip

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        return self.protocol(crowd, rounds).guarantee("peer")

    def stopped(self, crowd: Crowd, rounds: int) -> Guarantee:
        """Return that of a broken walk: later steps do not hide a model published before them."""
        return self.protocol(crowd, rounds).cut_short().guarantee("peer")

    def describe(self) -> dict[str, Any]:
        return {"channel": "token"} | asdict(self)


@dataclass(kw_only=True, eq=False)
class TokenSGD(SGD):
    """Train on the holder of the token; ``rounds`` are its steps, ``sigma`` is in units of clip.

    ``path`` says whether people learn from whom the token comes and where it goes. A public path
    needs ``cap``, the most gradients that one person adds; ``record_norm``, a length that no record
    exceeds; and a constant learning rate of at most 2 over the smoothness, which is
    :meth:`largest_learning_rate`. ``published`` says whether everyone is shown the final model.
    With a public path the guarantee is of the token as peers see it: ``history_``, with the length
    of every step, is for you alone.
    """

    rate: Literal["one"] = field(default="one", init=False)
    clip: float
    sigma: float
    path: Literal["hidden", "public"] = "hidden"
    cap: int | None = None
    record_norm: float | None = None
    published: bool = True

    def channel(self) -> TokenNoise:
        return TokenNoise(self.clip, self.sigma, self.path, self.cap, self.published)

    def _check(self) -> None:
        super()._check()
        if self.path == "hidden":
            if self.record_norm is not None:
                raise InvalidParameter("record_norm is for a public path: leave it out")
            return
        for name, kept in (("momentum", self.momentum), ("average", self.average)):
            refuse(
                kept,
                f"{name} is not proven with a public path, where only the model itself may travel: "
                "leave it out, or hide the path",
            )
        if callable(self.learning_rate):
            raise InvalidParameter(
                "learning_rate must be a constant with a public path: give a number, or hide the "
                "path"
            )
        most = self.largest_learning_rate()
        if self.learning_rate > most:
            raise InvalidParameter(
                f"learning_rate must be at most 2 over the smoothness = {most:g} with a public "
                f"path, got {self.learning_rate:g}: lower it, or hide the path"
            )

    def largest_learning_rate(self) -> float:
        """Return 2/β: up to here a step brings no two models further apart."""
        if self.record_norm is None or not checks.number(self.record_norm, "record_norm") > 0:
            raise InvalidParameter(
                "record_norm must be above 0: with a public path the smoothness of the loss, and "
                "so the learning rate, depends on how long records can be"
            )
        smoothness = self.model.smoothness(self.record_norm)
        if smoothness is None:
            raise InvalidParameter(
                f"a public path needs a loss that is convex and smooth in one number, which "
                f"{type(self.model).__name__} has not: use Logistic with two classes or Ridge, or "
                "hide the path"
            )
        return 2 / smoothness * (1 - 2.0**-50)

    def _begin(self, rows: NDArray[Any], targets: NDArray[Any]) -> None:
        if self.record_norm is not None:
            longest = float(np.linalg.norm(rows.astype(np.float64), axis=-1).max())
            if longest > self.record_norm * _ROUNDED:
                raise InvalidParameter(
                    f"a record has length {longest:g}, above record_norm = {self.record_norm:g}: "
                    "scale the records, as UnitBall does, or raise record_norm"
                )
        # Refuses too few people before any of their records is used.
        self.channel().protocol(self._crowd_of(len(rows), 1), rounds=1)
        super()._begin(rows, targets)

    def _describe(self, rows: NDArray[Any], targets: NDArray[Any], root: int) -> dict[str, Any]:
        found = super()._describe(rows, targets, root)
        if self.path == "public":
            # The same for all steps, also of a training that goes on.
            found["learning_rate"] = self.learning_rate
        return found

    @property
    def protocol_(self) -> TokenWalk:
        """The walk of the planned steps: its other views, and its cost."""
        state, crowd = self._held()
        walk = cast(TokenNoise, self._channel).protocol(crowd, self._planned)
        return walk.cut_short() if state.rounds < self._planned else walk
