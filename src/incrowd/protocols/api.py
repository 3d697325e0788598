"""The one shape of all protocols: a frozen description that is accounted, priced, and run.

A protocol is a frozen dataclass: a randomizer, settings (from which the command-line flags, the
``[protocol]`` table of a survey file and ``parameters`` in JSON are derived), for some a graph or
another source, and facts about a run. It is copied by ``dataclasses.replace`` alone. Two executions
start here and end in ``incrowd.protocols.run``:

* ``collect`` draws the reports of a whole population at once, vectorised;
* ``actor`` makes one participant, to be played by ``incrowd.sim`` or live.

The guarantees of a run are those of ``conditional_on(collected)``: computed from what happened,
never copied from the plan. Abilities that only some protocols have, such as cover traffic, are
mixins in ``incrowd.protocols.capabilities``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.blocks import Fact
from incrowd.errors import InvalidCrowd
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.settings import checked_settings
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, Task

if TYPE_CHECKING:
    from incrowd.protocols.run import Run

Colluders = int | float | Sequence[int]
"""People who help the view: how many, which share of everyone, or who they are."""

Progress = Callable[[int, int], None]
"""Is told how much of how much is done."""

VIEWS = ("curator", "curator+hub", "everyone")
"""The views about which every protocol says something."""


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


def check_randomizer(randomizer: object) -> Randomizer:
    """A randomizer with its parameters: neither its class nor its name."""
    return checks.instance(randomizer, Randomizer, "randomizer", "KRR(categories=3, epsilon=1.0)")


@dataclass(frozen=True)
class Protocol(ABC):
    """Base of all protocols."""

    kind: ClassVar[str]
    """Name in survey files and on the command line."""
    collected_type: ClassVar[type[Collected]] = Collected
    """Reports of a run and further facts, as its curator has them in the end."""

    randomizer: Randomizer
    n: int = field(kw_only=True)
    """People who take part; 0 where the task will tell."""

    def __post_init__(self) -> None:
        if self.randomizer is not None:
            check_randomizer(self.randomizer)
        self._assign(checked_settings(self))
        self._assign(self._resolved().items())
        check_randomizer(self.randomizer)

    def _assign(self, values: Iterable[tuple[str, Any]]) -> None:
        for name, value in values:
            object.__setattr__(self, name, value)

    def _resolved(self) -> Mapping[str, Any]:
        """Refuse settings that do not go together; return those that follow from others."""
        return {}

    @property
    def views(self) -> tuple[str, ...]:
        """Views against which an offer must state a guarantee."""
        return VIEWS

    @property
    def helpers(self) -> tuple[Address, ...]:
        """Parties besides devices."""
        return (CURATOR,)

    @abstractmethod
    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """Proven bound against this view; raises ``NotProven`` where nothing is proven."""

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> tuple[Fact, ...]:
        """Further facts about a guarantee at this δ."""
        del delta, guarantee, colluders
        return ()

    @abstractmethod
    def cost(self) -> Cost:
        """Price of taking part, and expected error."""

    @abstractmethod
    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """Run a whole population of encoded values at once, in memory."""

    @abstractmethod
    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One participant in its first state; the curator's ``Done`` carries ``Collected``."""

    @abstractmethod
    def subset(self, people: Sequence[int]) -> Self:
        """The same protocol among some of the people only, numbered anew in this order."""

    def duration(self, timing: Timing) -> float:
        """Seconds after the start until no party waits for another any more."""
        return timing.timeout

    @abstractmethod
    def conditional_on(self, collected: Collected) -> Self:
        """The protocol as it was really run, for the guarantees of the result."""

    def simulate(
        self, values: NDArray[Any], *, task: Task | None = None, seed: int | None = None
    ) -> Run:
        """Encode, collect and conclude for a population in memory.

        Without a task the values are already what the randomizer takes (codes, numbers in [0, 1],
        unit vectors), and the natural question of that domain is asked.
        """
        from incrowd.protocols.run import simulate

        return simulate(self, values, task, seed)
