"""Stochastic gradient descent in rounds: one trainer, whatever way the gradients travel.

In round t each person is in by a coin of their own, with probability ``rate`` (Poisson sampling),
or one person is, drawn uniformly; those who are compute the gradient of their own loss at the
public parameters θ_t; a :class:`~incrowd.tasks.learning.channels.Channel` turns these into one
average; and

    v ← momentum·v + average + penalty(θ),   θ ← Π(θ − learning_rate(t)·v),

where Π, if a radius is given, brings θ back to the ball of that radius. One person may have several
records: their gradient is the mean over these, and counts as one.

Everything after the channel is post-processing. Rounds compose adaptively: that θ_t depends on
earlier rounds is what adaptive composition allows.

Invariants. A round is applied and accounted, or neither. A gradient that is no finite number counts
as zero, which is what a device would have to send: whether training goes on must not depend on one
record. Parameters that leave the range of doubles depend on released averages alone; training then
stops before they are taken over, and the round counts as spent. A round without participants is
accounted like every other. The number of rounds is planned before the first: ``rounds``, or as
many of them as ``budget=(ε, δ)`` pays for, and the guarantee is that of the plan. Training may end
early because of what the model has come to, so that the rounds held prove nothing by themselves;
nor can rounds be added later (``docs/theory/stopping.md``). Randomness is addressed by round and
role, so a result depends on the root seed alone; a checkpoint continues bit for bit.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import BudgetInfeasible, InvalidParameter, NotANumber, ProtocolFailed
from incrowd.privacy import Guarantee
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning import checkpoint as files
from incrowd.tasks.learning.channels import Channel, Crowd
from incrowd.tasks.learning.checkpoint import State
from incrowd.tasks.learning.gradients import Batch, Gradients, clipped
from incrowd.tasks.learning.models import Model, records_of
from incrowd.tasks.learning.progress import Told, shown
from incrowd.tasks.learning.sampling import Participants, Rate, check_rate
from incrowd.tasks.raw import Array

_MOST_NUMBERS = 1 << 25
"""Numbers of gradients in memory where people have several records."""
_RECENT = 3
"""Preference of the running average for late rounds: weight ∝ t³ or so."""


@dataclass(frozen=True, slots=True)
class Round:
    """Facts of one round; all but ``not_finite`` is covered by the guarantee."""

    participants: int | None
    """Number of people who were in; None where it stays hidden."""
    step: float
    """Length of the move of the parameters."""
    learning_rate: float
    not_finite: int = 0
    """Gradients that were no finite numbers, and counted as zero: for you, not to publish."""


@dataclass(kw_only=True, eq=False)
class SGD(ABC):
    """Base of the learners; subclasses add the parameters of their channel.

    ``rate`` is everybody's chance to be in a round, or ``"one"`` for exactly one person, drawn
    uniformly; ``learning_rate`` a number or a function of the round, from 0; ``radius`` the length
    that the parameters are brought back to where they are longer; ``average`` returns a running
    average of the iterates that prefers late ones (weights of polynomial decay) in place of the
    last. Labels of shape (people, k) say that each person has k records, and then records have
    these two axes first. With ``checkpoint`` the state is saved every ``every`` rounds and at the
    end, and ``fit`` continues where a file of the same configuration stopped. ``budget`` is a pair
    (ε, δ): no more rounds are planned than it pays for. ``progress`` is ``True`` for a bar, or a
    function of rounds done and rounds in all.
    """

    model: Model
    rounds: int
    rate: Rate
    learning_rate: float | Callable[[int], float]
    radius: float | None = None
    momentum: float = 0.0
    average: bool = False
    seed: int | None = None
    budget: tuple[float, float] | None = None
    checkpoint: str | Path | None = None
    every: int = 100
    progress: bool | Told = False

    def __post_init__(self) -> None:
        self._check()
        self._state: State | None = None
        self._crowd: Crowd | None = None
        self._shape: tuple[int, ...] = ()
        self._configuration: dict[str, Any] = {}
        self._given = self._model = self.model
        self._channel = self.channel()

    def _check(self) -> None:
        checks.instance(self.model, Model, "model", "Softmax(classes=10)")  # type: ignore[type-abstract]
        checks.integer(self.rounds, "rounds", 1)
        check_rate(self.rate)
        checks.integer(self.every, "every", 1)
        if self.radius is not None and not checks.number(self.radius, "radius") > 0:
            raise InvalidParameter(f"radius must be above 0, got {self.radius!r}", field="radius")
        if not 0 <= checks.number(self.momentum, "momentum") < 1:
            raise InvalidParameter(f"momentum must be at least 0 and below 1, got {self.momentum}")
        if self.seed is not None and checks.integer(self.seed, "seed", 0) >= 2**63:
            raise InvalidParameter(f"seed must be below 2^63, got {self.seed!r}")
        if not callable(self.learning_rate):
            self._learning_rate(0)
        if self.budget is not None:
            try:
                epsilon, delta = self.budget
            except (TypeError, ValueError) as wrong:
                problem = f"budget must be a pair (epsilon, delta), got {self.budget!r}"
                raise InvalidParameter(problem) from wrong
            checks.epsilon(epsilon)
            checks.delta(delta)
        if not self.channel().takes_one and self.rate == "one":
            problem = "is not accounted for with one person each round"
            remedy = "give the chance to be in as rate"
            raise InvalidParameter(f"{type(self).__name__} {problem}: {remedy}")

    @abstractmethod
    def channel(self) -> Channel:
        """Make the channel of the gradients."""

    def guarantee(self, shape: tuple[int, ...], rounds: int | None = None) -> Guarantee:
        """Return the guarantee of training on records of this shape, people first; read no data.

        Leave out the axis of each person's records: their number makes no difference.
        """
        self._check()
        size = copy.copy(self.model).start(tuple(shape[1:]), Seeds(self.seed or 0)).size
        crowd = self._crowd_of(shape[0], size)
        held = checks.integer(self.rounds if rounds is None else rounds, "rounds", 1)
        return self.channel().guarantee(crowd, held)

    def _crowd_of(self, people: int, size: int) -> Crowd:
        checks.crowd(people)
        rate = check_rate(self.rate)
        return Crowd(people, 1 / people if rate is None else rate, size, one=rate is None)

    @property
    def guarantee_(self) -> Guarantee:
        """Guarantee of the planned rounds, also where fewer were held."""
        state, crowd = self._held()
        early = state.rounds < self._planned
        proven = self._channel.stopped if early else self._channel.guarantee
        return proven(crowd, self._planned)

    @property
    def _planned(self) -> int:
        """Rounds that were planned before the first; 0 where the budget pays for none."""
        return int(self._configuration["rounds"])

    def epsilon(self, delta: float) -> float:
        """A proven ε of the planned rounds, at this δ."""
        return self.guarantee_.epsilon(delta)

    @property
    def parameters_(self) -> FloatArray:
        """The flat vector of parameters that predicts."""
        state, _ = self._fitted()
        return (state.average if self.average else state.parameters).copy()

    @property
    def rounds_(self) -> int:
        """Number of rounds that were held."""
        return self._fitted()[0].rounds

    @property
    def seed_(self) -> int:
        """The root seed."""
        return self._fitted()[0].root

    @property
    def history_(self) -> tuple[Round, ...]:
        """Facts of each round."""
        rounds = self._fitted()[0].history[: self.rounds_].tolist()
        return tuple(Round(people if people >= 0 else None, *rest) for people, *rest in rounds)

    def predict(self, records: ArrayLike) -> Array:
        """One label or number per record."""
        return self._model.predict(self.parameters_, self._known(records))

    def score(self, records: ArrayLike, labels: ArrayLike) -> float:
        """Accuracy, or R² of a regression, on any records."""
        return self._model.score(self.parameters_, self._known(records), np.asarray(labels))

    def loss(self, records: ArrayLike, labels: ArrayLike) -> float:
        """The mean loss on these records, without the penalty."""
        targets = self._model.targets(np.asarray(labels))
        return float(self._model.losses(self.parameters_, self._known(records), targets).mean())

    def _known(self, records: ArrayLike) -> Array:
        self._fitted()
        rows = records_of(records)
        if rows.shape[1:] != self._shape:
            got = f"got {rows.shape[1:]}"
            raise InvalidParameter(f"the model was trained on records {self._shape}, {got}")
        return rows

    def fit(self, records: ArrayLike, labels: ArrayLike) -> Self:
        """Train for all rounds from the start, or from the checkpoint where there is one."""
        self._check()
        self._state = self._crowd = None
        return self._train(records, labels, None)

    def partial_fit(self, records: ArrayLike, labels: ArrayLike, rounds: int = 1) -> Self:
        """Hold some more of the planned rounds, with the same people; 0 takes up a checkpoint."""
        self._check()
        return self._train(records, labels, checks.integer(rounds, "rounds", 0))

    def _train(self, records: ArrayLike, labels: ArrayLike, more: int | None) -> Self:
        rows, targets = self.model.labelled(records, labels)
        self._begin(rows, targets)
        state, crowd = self._fitted()
        last = self._last_round(state, more)
        if self.checkpoint is not None and state.rounds < last:
            files.check_writable(Path(self.checkpoint))
        state.make_room(last)
        cap = self._channel.most_rounds
        people = Participants(Seeds(state.root), crowd.people, self.rate, cap)
        with shown(self.progress) as tell:
            while state.rounds < last:
                inside = people.inside(state.rounds)
                # One assignment: whatever interrupts training, a round is kept whole or not at all.
                self._state, moved = self._round(state, crowd, inside, rows, targets)
                state = self._state
                due = not moved or state.rounds == last or state.rounds % self.every == 0
                if due and self.checkpoint is not None:
                    files.save(Path(self.checkpoint), state, self._configuration)
                if not moved:
                    problem = "a parameter is not a finite number; the step is not taken and the "
                    problem += "round counts as spent: lower the learning rate or scale the records"
                    raise NotANumber(f"round {state.rounds - 1}: {problem}")
                tell(state.rounds, last)
        return self

    def _begin(self, rows: Array, targets: Array) -> None:
        """Take up training as it was left, from the checkpoint, or at the start."""
        if self._state is not None:
            self._continue(rows, targets, self._state)
            return
        path = None if self.checkpoint is None else Path(self.checkpoint)
        saved = path if path is not None and path.exists() else None
        root = files.root_of(saved) if saved is not None and self.seed is None else self.seed
        seeds = Seeds(root)
        # A copy: what a model makes of a seed belongs to this training alone.
        self._given, self._model = self.model, copy.copy(self.model)
        start = self._in_ball(self._model.start(rows.shape[targets.ndim :], seeds))
        configuration = self._describe(rows, targets, seeds.root)
        configuration["start"] = files.digest_of(start)
        crowd, channel = self._crowd_of(len(rows), start.size), self.channel()
        # Nothing that is seen later can be a reason for the number of rounds.
        configuration["rounds"] = planned = int(self.rounds)
        if self.budget is not None:
            configuration["rounds"] = channel.rounds_within(crowd, planned, *self.budget)
        state = State.at(start, seeds.root)
        if saved is not None:
            state = files.load(saved, configuration, start.size)
            self._same_learning_rates(saved, state)
        self._shape, self._crowd = rows.shape[targets.ndim :], crowd
        self._configuration, self._channel, self._state = configuration, channel, state

    def _continue(self, rows: Array, targets: Array, state: State) -> None:
        if self.model is not self._given:
            raise InvalidParameter("training began with another model: fit anew")
        for name, here in self._describe(rows, targets, state.root).items():
            if (there := self._configuration[name]) != here:
                problem = f"training began with {name} = {there!r}, got {here!r}"
                raise InvalidParameter(f"{problem}: go on as it began, or fit anew")

    def _describe(self, rows: Array, targets: Array, root: int) -> dict[str, Any]:
        """Describe what every round depends on, in types that JSON has."""
        described = {
            "learner": type(self).__name__,
            **self._model.describe(),
            **self.channel().describe(),
            **{name: getattr(self, name) for name in ("rate", "radius", "momentum", "average")},
            "records": list(rows.shape),
            "data": files.digest_of(rows, targets),
            "seed": root,
        }
        return {
            name: each.item() if isinstance(each, np.generic) else each
            for name, each in described.items()
        }

    def _same_learning_rates(self, path: Path, state: State) -> None:
        for number, there in enumerate(state.history["rates"].tolist()):
            if self._learning_rate(number) != there:
                differs = f"learning_rate ({there!r} there in round {number})"
                raise files.another_training(path, differs)

    def _last_round(self, state: State, more: int | None) -> int:
        planned = self._planned
        if self.budget is not None and (planned == 0 or (more and state.rounds == planned)):
            epsilon, delta = self.budget
            raise BudgetInfeasible(
                f"the budget of epsilon = {epsilon:g} at delta = {delta:g} is met by {planned} "
                f"rounds, and {state.rounds} were held: raise the budget, or add noise"
            )
        if more is None:
            return planned
        if self.budget is None and state.rounds + more > planned:
            held = f"{planned} were planned before the first, and {state.rounds} were held"
            remedy = f"hold at most {planned - state.rounds} more, or fit anew with more rounds"
            raise InvalidParameter(f"rounds = {held}: {remedy}", field="rounds")
        return min(planned, state.rounds + more)

    def _round(
        self, state: State, crowd: Crowd, inside: NDArray[np.intp], rows: Array, targets: Array
    ) -> tuple[State, bool]:
        """Return the state after one round, and whether it moved: parameters stay finite.

        The state before still stands for the rounds before.
        """
        number, channel, row = state.rounds, self._channel, state.history[state.rounds]
        batch = Batch(inside.size, crowd.size, self._blocks(state, inside, rows, targets))
        row["not_finite"] = 0
        with np.errstate(over="ignore", invalid="ignore"):
            found = channel.average(batch, crowd, Seeds(state.root), number)
        speed, step, moved = self._learning_rate(number), 0.0, True
        after = dataclasses.replace(state, rounds=number + 1)
        if found is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                velocity = self.momentum * state.velocity + found
                velocity += self._model.penalty(state.parameters)
                parameters = self._in_ball(state.parameters - speed * velocity)
                length = speed * float(np.linalg.norm(velocity))
                if self.radius is not None:
                    length = float(np.linalg.norm(parameters - state.parameters))
            moved = bool(np.isfinite(parameters).all()) and math.isfinite(length)
            if moved:
                share = (_RECENT + 1) / (number + 1 + _RECENT)
                after.velocity, after.parameters, step = velocity, parameters, length
                after.average = (1 - share) * state.average + share * parameters
        row["participants"] = inside.size if channel.counted else -1
        row["steps"], row["rates"] = step, speed
        return after, moved

    def _blocks(
        self, state: State, inside: NDArray[np.intp], rows: Array, targets: Array
    ) -> Iterator[tuple[Gradients, FloatArray]]:
        step, points = self._model.at_once(state.parameters.size), 0
        if targets.ndim == 2:
            points = targets.shape[1]
            step = max(1, min(step // points, _MOST_NUMBERS // state.parameters.size))
        for first in range(0, inside.size, step):
            some = inside[first : first + step]
            own, wanted = rows[some], targets[some]
            if points:
                own, wanted = own.reshape(-1, *rows.shape[2:]), wanted.reshape(-1)
            gradients = self._model.gradients(state.parameters, own, wanted)
            if points:
                gradients = gradients.means(points, self._channel.record_clip)
            norms = gradients.norms()
            lost = ~np.isfinite(norms)
            if lost.any():
                gradients, norms = gradients.without(lost), np.where(lost, 0.0, norms)
                state.history["not_finite"][state.rounds] += np.count_nonzero(lost)
            yield gradients, norms

    def _in_ball(self, parameters: FloatArray) -> FloatArray:
        return parameters if self.radius is None else clipped(parameters[None], self.radius)[0]

    def _learning_rate(self, number: int) -> float:
        chosen = self.learning_rate
        speed = checks.number(chosen(number) if callable(chosen) else chosen, "learning_rate")
        if speed <= 0:
            raise InvalidParameter(f"learning_rate must be above 0, got {speed!r}")
        return speed

    def _fitted(self) -> tuple[State, Crowd]:
        if self._state is None or self._crowd is None:
            raise ProtocolFailed(f"this {type(self).__name__} is not trained yet: call fit first")
        return self._state, self._crowd

    def _held(self) -> tuple[State, Crowd]:
        state, crowd = self._fitted()
        if state.rounds == 0:
            raise ProtocolFailed("no round was held, so nothing was released: fit first")
        return state, crowd

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name, for searches over them as scikit-learn does."""
        del deep
        names = (each.name for each in dataclasses.fields(self) if each.init)
        return {name: getattr(self, name) for name in names}

    def set_params(self, **settings: Any) -> Self:
        """Change settings; what was trained is kept until the next fit."""
        known = self.get_params()
        for name in settings:
            if name not in known:
                hint = checks.did_you_mean(name, known)
                raise InvalidParameter(f"{type(self).__name__} has no setting {name!r}: {hint}")
        dataclasses.replace(self, **settings)  # refuses what is wrong before anything is changed
        for name, value in settings.items():
            setattr(self, name, value)
        return self
