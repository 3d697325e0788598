"""The one shape of all protocols: a frozen description that is accounted, priced, and run.

A protocol joins its ``Parameters`` (a frozen ``msgspec.Struct``, from which the command-line flags,
the ``[protocol]`` table of a survey file and ``parameters`` in JSON are derived) with a randomizer
and, for some, with a graph. Its three executions end in the same place:

* ``collect`` draws the reports of a whole population at once, vectorised;
* ``party`` makes one participant, to be played by ``incrowd.sim`` or live;
* ``conclude`` turns what was collected, by either, into a :class:`Run`. The guarantees of a run are
  those of ``realised(collected)``: computed from what happened, never copied from the plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, NotProven, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    Maker,
    NullSealer,
    Sealer,
    device,
)
from incrowd.protocols.runtime.context import ActorContext, Connections, Timing
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Answer, Collected, Task

__all__ = [
    "VIEWS",
    "Colluders",
    "Cost",
    "Drawing",
    "Parameters",
    "Progress",
    "Protocol",
    "Refined",
    "RoundParameters",
    "Run",
    "Safe",
    "check_colluders",
    "check_randomizer",
    "colluding",
    "parameter",
]

Safe = Literal["min", "max"]
"""Which side of a solved parameter is safe: the least value that meets the budget, or the most."""

Colluders = int | float | Sequence[int]
"""People who help the view: how many, which share of everyone, or who they are."""

Progress = Callable[[int, int], None]
"""Is told how much of how much is done."""

VIEWS = ("curator", "curator+hub", "everyone")
"""The views about which every protocol says something."""


def parameter(
    description: str,
    solve: Safe | None = None,
    *,
    most: float | None = None,
    path: bool = False,
    default: str | None = None,
) -> Any:
    """Metadata of one field of ``Parameters``: its help text, and which side of it is safe.

    ``most``: the largest value that makes sense. ``path``: it names a file, relative to the survey
    that does. ``default``: what to say of its default where the value itself does not.
    """
    extra = {"solve": solve, "most": most, "path": path, "default": default}
    return msgspec.Meta(description=description, extra=extra)


def colluding(colluders: Colluders, n: int, seed: int = 0) -> NDArray[np.intp]:
    """Who colludes; those of whom only the number or the share is known are drawn at random."""
    count = check_colluders(colluders, n)
    if isinstance(colluders, Sequence | np.ndarray) or not count:
        # Nobody is drawn of a crowd that may be too large to list.
        return np.unique(np.asarray(colluders if count else (), np.intp))
    return np.sort(Seeds(seed).generator("colluders").permutation(n)[:count])


def check_colluders(colluders: Colluders, n: int) -> int:
    """How many collude; refuses a number that does not leave at least the victim."""
    if isinstance(colluders, np.ndarray):
        colluders = colluders.tolist()
    if isinstance(colluders, Sequence) and not isinstance(colluders, str):
        who = [checks.integer(each, "a colluder", 0) for each in colluders]
        if who and max(who) >= n:
            raise InvalidCrowd(f"colluder {max(who)} is not one of the people 0 to {n - 1}")
        count = len(set(who))
    elif isinstance(colluders, float) and 0 < colluders < 1:
        count = math.ceil(colluders * n)
    else:
        count = checks.integer(colluders, "colluders", 0)  # type: ignore[arg-type]
    if n - count < 1:
        raise InvalidCrowd(
            f"{count} colluders leave nobody of {n} people to protect: "
            "there must be at most n − 1 of them"
        )
    return count


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters every protocol has."""

    n: Annotated[int, parameter("people who take part, the victim included", solve="min")]

    def __post_init__(self) -> None:
        """Refuse what describes no crowd."""
        msgspec.structs.force_setattr(self, "n", checks.crowd(self.n))

    def files(self) -> list[str]:
        """The files that these parameters name."""
        hints = get_type_hints(type(self), include_extras=True)
        named = [
            getattr(self, name)
            for name, hint in hints.items()
            for each in getattr(hint, "__metadata__", ())
            if each.extra and each.extra.get("path")
        ]
        return [each for each in named if each]


class RoundParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of protocols in which everyone reports once per round."""

    rounds: Annotated[int, parameter("fresh reports from every person", solve="max")] = 1

    def __post_init__(self) -> None:
        """Refuse fewer than one round."""
        Parameters.__post_init__(self)
        msgspec.structs.force_setattr(self, "rounds", checks.integer(self.rounds, "rounds", 1))

    def realised(self, collected: Collected) -> Self:
        """All planned rounds but empty ones, each with the crowd of the smallest.

        Reports of all rounds are sent at the start, and rounds close by the clock: attendance
        alone decides how many arrive. A round without reports reveals nothing. Taking the smallest
        crowd for all is cautious: a larger crowd is a smaller one to which reports of others were
        added. Rounds that are missing were not awaited, perhaps because of what came before: they
        are charged, and unless everyone was there in the others, without a crowd. See
        ``docs/theory/stopping.md``.
        """
        crowds = [crowd for crowd in collected.crowds if crowd > 0]
        if not crowds:
            raise ProtocolFailed(
                f"none of the {collected.sent} reports arrived: lower the faults or give people "
                "more time"
            )
        empty = len(collected.crowds) - len(crowds)
        stopped = len(collected.crowds) < self.rounds
        alone = stopped and (empty > 0 or min(crowds) < self.n)
        crowd = 1 if alone else min(crowds)
        return msgspec.structs.replace(self, n=crowd, rounds=max(1, self.rounds - empty))


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one person sends when nothing is lost, before sealing, and how well it answers."""

    rounds: int
    messages_per_person: float
    bytes_per_person: float
    extra_people: int = 0
    """How many people beyond the crowd must help."""
    expected_error: float | None = None
    """The standard error of one coordinate of the answer, in the randomizer's own units.

    An estimate for values spread evenly, not a bound; none for a randomizer that cannot draw.
    """


@dataclass(frozen=True)
class Drawing:
    """Who sends to whom, drawn for a page and for a terminal, and what it shows, in sentences."""

    svg: str
    text: str
    told: tuple[str, ...]


@dataclass(frozen=True)
class Refined:
    """The answer after some of the rounds, and the protocol as if no more had been planned."""

    rounds: int
    result: Answer
    protocol: Protocol


@dataclass(frozen=True)
class Run:
    """What came out of a protocol, with the promise that covers it."""

    result: Answer
    guarantees: tuple[Guarantee, ...]
    cost: Cost
    collected: Collected
    seed: int | None
    refined: tuple[Refined, ...]
    """How the answer became sharper, where a protocol asks round after round."""

    def __repr__(self) -> str:
        """The result in short, the seed that repeats it, and how many promises cover it."""
        return f"Run({self.result!r}, seed = {self.seed}, {len(self.guarantees)} guarantees)"

    @property
    def interval(self) -> tuple[Any, Any]:
        """The confidence limits of the result."""
        return self.result.low, self.result.high


def check_randomizer(randomizer: object) -> Randomizer:
    """A randomizer with its parameters: neither its class nor its name."""
    return checks.instance(randomizer, Randomizer, "randomizer", "KRR(categories=3, epsilon=1.0)")


class Protocol(ABC):
    """Base of all protocols. Subclasses are frozen dataclasses."""

    kind: ClassVar[str]
    """The name in survey files and on the command line."""
    summary: ClassVar[str]
    """One line for tables and help."""
    parameters_type: ClassVar[type[Parameters]]
    collects: ClassVar[type[Collected]] = Collected
    """What its curator ends up with."""
    view: ClassVar[str] = "curator"
    """Against whom it protects in the first place: the view of whoever names none."""
    limits_type: ClassVar[type[msgspec.Struct] | None] = None
    """What may be limited where it chooses parameters for a budget; none where it chooses none."""
    usual: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"histogram": "krr", "mean": "ternary", "sum": "ternary"}
    )
    """The randomizer of each kind of task, where none is named."""
    unsaid: ClassVar[Randomizer | None] = None
    """The randomizer where a promise can be stated without any; none where one must be named."""
    slack: ClassVar[float | None] = None
    """The δ of a promise for which none is named; none where one must be."""
    refines: ClassVar[bool] = False
    """Whether each round has an answer of its own, which those before make sharper."""

    parameters: Any
    randomizer: Randomizer

    @classmethod
    @abstractmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters, as the command line and survey files do.

        ``graph`` stands for the file that the parameters name, where it is already at hand.
        """

    @classmethod
    def implied(cls, parameters: Any) -> str | Randomizer:
        """The randomizer, or the kind of it, that goes with parameters where none is named."""
        del parameters
        return "generic"

    @classmethod
    def asks_epsilon0(cls, given: Mapping[str, Any]) -> bool:
        """Whether an ε0 belongs to these settings, rather than noise that they state themselves."""
        del given
        return True

    @classmethod
    def fitted(
        cls,
        given: Mapping[str, Any],
        *,
        task: Task,
        people: int,
        epsilon: float,
        delta: float,
        view: str,
        limits: Any,
    ) -> dict[str, Any]:
        """Parameters beside those that are given, chosen to keep a budget within limits."""
        del given, task, people, epsilon, delta, view, limits
        return {}

    @property
    def views(self) -> tuple[str, ...]:
        """The views about which a task must promise something before anybody joins it."""
        return VIEWS

    @property
    def helpers(self) -> tuple[Address, ...]:
        """The parties besides people's devices."""
        return (CURATOR,)

    def asking(self, task: Task) -> Self:
        """The protocol for this question, where it depends on more than the randomizer."""
        del task
        return self

    @abstractmethod
    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """What is proven against this view; raises ``NotProven`` where nothing is."""

    def guarantee_against_any(self, view: str, colluders: int) -> Guarantee:
        """The guarantee against this view and any such number of people, whoever they are."""
        return self.guarantee(view, colluders)

    def planned(
        self, delta: float, *, colluders: Colluders = 0, progress: Progress | None = None
    ) -> Self:
        """The protocol with everything chosen that its parameters leave open, for this δ.

        Whatever takes long to compute, against the curator with these colluders, is done here.
        """
        del delta, colluders, progress
        return self

    def particulars(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> dict[str, Any]:
        """What this protocol alone has to say about a guarantee at this δ, as plain data."""
        del delta, guarantee, colluders
        return {}

    def details(self, collected: Collected, delta: float) -> dict[str, Any]:
        """What this protocol alone has to say about a run, at this δ, as plain data."""
        del collected, delta
        return {}

    def drawing(self) -> Drawing | None:
        """Who sends to whom; none where words are enough."""
        return None

    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The views every result states: the curator, the curator with helpers, everyone."""

    @abstractmethod
    def cost(self) -> Cost:
        """What taking part costs, and the expected error."""

    @abstractmethod
    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """Run a whole population of encoded values at once, in memory."""

    @abstractmethod
    def party(self, address: Address, context: ActorContext) -> Actor:
        """One participant in its first state; the curator's ``Done`` carries ``Collected``."""

    def actors(
        self,
        values: NDArray[Any],
        seeds: Seeds,
        sealers: Mapping[Address, Sealer] | None = None,
        timing: Timing | None = None,
    ) -> dict[Address, Maker]:
        """How to make each participant of one run over these encoded values."""
        self.check_crowd(values)
        sealed, when = sealers or {}, timing or Timing()
        makers: dict[Address, Maker] = {}

        def add(address: Address, value: NDArray[Any] | None, *stream: Any) -> None:
            context = ActorContext(
                generator=partial(seeds.generator, *stream),
                value=value,
                sealer=sealed.get(address, NullSealer()),
                timing=when,
            )
            makers[address] = partial(self.party, address, context)

        for person in range(len(values)):
            add(device(person), values[person : person + 1], "device", person)
        for helper in self.helpers:
            add(helper, None, helper)
        return makers

    @property
    def graph(self) -> Graph | None:
        """Who can talk to whom, where that is part of the protocol."""
        return None

    def with_attendance(
        self, collected: Collected, connections: Connections, timing: Timing
    ) -> Collected:
        """What was collected, with when a hub was connected to whom, where that matters."""
        del connections, timing
        return collected

    @property
    def excuse(self) -> bytes | None:
        """What a device tells the curator when it will not begin after all, where that matters."""
        return None

    def published(self) -> Parameters:
        """The parameters without what only means something on this machine."""
        parameters: Parameters = self.parameters
        return parameters

    @property
    def roster(self) -> tuple[Address, ...]:
        """Everyone's device."""
        return tuple(device(person) for person in range(self.parameters.n))

    def contacts(self, person: int) -> tuple[Address, ...]:
        """The parties to which a person's device may send before it hands in.

        Where people do not talk to each other that is whoever collects: the first of the helpers.
        """
        del person
        return self.helpers[:1]

    @abstractmethod
    def among(self, people: Sequence[int]) -> Self:
        """The same protocol among some of the people only, numbered anew in this order."""

    def covered(self, delta: float, cells: CellFormat) -> tuple[Self, CoverPlan]:
        """The protocol with cover traffic, and the timetable that gives it, for this δ."""
        del delta, cells
        raise NotProven(f"{self.kind} has no cover traffic: leave cover out")

    def lasts(self, timing: Timing) -> float:
        """Seconds after the start until no party waits for another any more."""
        return timing.patience

    @abstractmethod
    def realised(self, collected: Collected) -> Self:
        """The protocol as it was really run, for the guarantees of the result."""

    def lasting(self, rounds: int) -> Self:
        """The same protocol, planned with another number of rounds, where it refines answers."""
        raise NotImplementedError(f"{self.kind} has no answer of its own for {rounds} rounds")

    def check_crowd(self, values: NDArray[Any]) -> None:
        """Refuse values of another crowd than the one that was accounted for."""
        if len(values) != self.parameters.n:
            raise InvalidCrowd(
                f"{self.kind} was set up for n = {self.parameters.n} people but got "
                f"{len(values)} values: set n to the number of rows"
            )

    def foreseen(self, values: NDArray[Any]) -> Self:
        """The protocol as it will have been run if all of these encoded values take part."""
        del values
        return self

    def question(self, task: Task | None) -> Task:
        """The task, checked against the randomizer, or the natural one of its domain."""
        from incrowd.tasks import natural_task

        asked = natural_task(self.randomizer) if task is None else task
        checks.instance(asked, Task, "task", "Mean(bounds=(0, 1))")
        asked.require(self.randomizer)
        return asked

    def conclude(self, collected: Collected, task: Task, seed: int | None) -> Run:
        """Estimate, and state what is proven about what happened."""
        happened = self.realised(collected)
        return Run(
            result=task.estimate(collected, self.randomizer),
            guarantees=happened.guarantees(),
            cost=happened.cost(),
            collected=collected,
            seed=seed,
            refined=tuple(self._refined(collected, task)) if self.refines else (),
        )

    def _refined(self, collected: Collected, task: Task) -> Iterator[Refined]:
        """The answers after 1, 2, 5, 10, 20 … of the rounds, from the first that has one.

        Beside each stands the protocol as it had been run if only these rounds had been planned:
        a run that was stopped there states all of its planned rounds.
        """
        held = len(collected.rounds)
        steps = sorted({held, *(m * 10**e for e in range(len(str(held))) for m in (1, 2, 5))})
        for rounds in steps:
            so_far = collected.first(rounds)
            if rounds <= held and so_far.received:
                planned = self.lasting(rounds).realised(so_far)
                yield Refined(rounds, task.estimate(so_far, self.randomizer), planned)

    def simulate(
        self, values: NDArray[Any], *, task: Task | None = None, seed: int | None = None
    ) -> Run:
        """Encode, collect and conclude for a population in memory.

        Without a task the values are already what the randomizer takes (codes, numbers in [0, 1],
        unit vectors), and the natural question of that domain is asked.
        """
        asked = self.question(task)
        ready, seeds = self.asking(asked), Seeds(seed)
        return ready.conclude(ready.collect(asked.encode(values), seeds), asked, seeds.root)
