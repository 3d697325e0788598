"""Abilities that some protocols have: a mixin each, and a function for callers that ask any.

A function beside a mixin says what holds for a protocol without that ability, so that callers need
not know which protocols have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import msgspec
from numpy.typing import NDArray

from incrowd.blocks import Fact
from incrowd.errors import NotProven
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.runtime.actor import Address
from incrowd.protocols.runtime.context import Connections, Timing
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan
from incrowd.tasks.base import Collected, Task

if TYPE_CHECKING:
    from incrowd.protocols.api import Colluders, Progress, Protocol
    from incrowd.randomizers.one_of import OneOf

P = TypeVar("P", bound="Protocol")


class Tunable(ABC):
    """Chooses settings that are left out, for a budget and within limits."""

    limits_type: ClassVar[type[msgspec.Struct]]
    """What may be limited."""

    @classmethod
    @abstractmethod
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
        """Settings beside those that are given, chosen to keep a budget within limits."""


class Plannable(ABC):
    """Chooses what its settings leave open, for a δ."""

    @abstractmethod
    def planned(
        self, delta: float, *, colluders: Colluders = 0, progress: Progress | None = None
    ) -> Self:
        """The protocol with everything chosen, and what takes long to compute computed."""


def planned(
    protocol: P, delta: float, *, colluders: Colluders = 0, progress: Progress | None = None
) -> P:
    """The protocol with everything chosen that its settings leave open."""
    if isinstance(protocol, Plannable):
        return protocol.planned(delta, colluders=colluders, progress=progress)
    return protocol


@dataclass(frozen=True)
class Sourced:
    """Has sources: inputs that are loaded, such as a graph, and never travel with the settings."""

    names: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False, compare=False)
    """Files or families that sources were read from, by field."""


class OnGraph(Sourced, ABC):
    """Runs over a graph of people."""

    @property
    @abstractmethod
    def graph(self) -> Graph | None:
        """Edges between people who can talk to each other; none where several serve in turn."""


def graph_of(protocol: Protocol) -> Graph | None:
    """The graph of a protocol that runs over one."""
    return protocol.graph if isinstance(protocol, OnGraph) else None


class Coverable(ABC):
    """Can hide its traffic behind cover traffic."""

    cover: CoverPlan | None

    @abstractmethod
    def covered(self, delta: float, cells: CellFormat) -> Self:
        """The protocol with the timetable of cells that gives cover traffic for this δ."""


def covered(protocol: P, delta: float, cells: CellFormat) -> P:
    """The protocol with cover traffic; raises ``NotProven`` where there is none."""
    if not isinstance(protocol, Coverable):
        raise NotProven(f"{protocol.kind} has no cover traffic: leave cover out")
    return protocol.covered(delta, cells)


def cover_of(protocol: Protocol) -> CoverPlan | None:
    """The timetable of cells of a protocol under cover traffic."""
    return protocol.cover if isinstance(protocol, Coverable) else None


class Routed(ABC):
    """Devices send to parties that depend on the person."""

    @abstractmethod
    def contacts(self, person: int) -> tuple[Address, ...]:
        """Parties to which a person's device may send before it hands in."""


def contacts_of(protocol: Protocol, person: int) -> tuple[Address, ...]:
    """Parties to which a person's device may send: by default the first helper, who collects."""
    return protocol.contacts(person) if isinstance(protocol, Routed) else protocol.helpers[:1]


class TaskBound(ABC):
    """Depends on more of a task than the randomizer."""

    def default_task(self) -> Task | None:
        """The task where none is given; none for the natural one of the randomizer."""
        return None

    @abstractmethod
    def bound_to(self, task: Task) -> Self:
        """The protocol for this task."""

    def prospective(self, values: NDArray[Any]) -> Self:
        """The protocol as it will have been run if all of these encoded values take part."""
        del values
        return self


def bound_to(protocol: P, task: Task) -> P:
    """The protocol for this task."""
    return protocol.bound_to(task) if isinstance(protocol, TaskBound) else protocol


def prospective(protocol: P, values: NDArray[Any]) -> P:
    """The protocol as it will have been run if all of these encoded values take part."""
    return protocol.prospective(values) if isinstance(protocol, TaskBound) else protocol


class OrderPrivate(ABC):
    """States a guarantee about the order of reports beside that about each answer."""

    @abstractmethod
    def order_guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee | None:
        """Proven bound on the order inside each group; none where that is nothing."""


class Anytime(ABC):
    """Has an answer after every round, which later ones make sharper."""

    @abstractmethod
    def with_rounds(self, rounds: int) -> Self:
        """The same protocol, planned with another number of rounds."""


class Attested(ABC):
    """Computes its guarantee from who was there when."""

    @property
    @abstractmethod
    def absence_message(self) -> bytes | None:
        """Message by which a device tells the curator that it will not begin after all."""

    @abstractmethod
    def attested(self, collected: Collected, connections: Connections, timing: Timing) -> Collected:
        """What was collected, with a hub's record of its connections."""


def attested(
    protocol: Protocol, collected: Collected, connections: Connections, timing: Timing
) -> Collected:
    """What was collected, with a hub's record of its connections where that matters."""
    if isinstance(protocol, Attested):
        return protocol.attested(collected, connections, timing)
    return collected


def absence_message(protocol: Protocol) -> bytes | None:
    """Message of a device that will not begin after all, where the curator needs one."""
    return protocol.absence_message if isinstance(protocol, Attested) else None


class MachineBound(ABC):
    """Has settings that only one machine can follow."""

    @abstractmethod
    def check_live(self) -> None:
        """Refuse such settings: raises ``InvalidParameter`` where devices cannot follow one."""


def check_live(protocol: Protocol) -> None:
    """Refuse settings that only one machine can follow."""
    if isinstance(protocol, MachineBound):
        protocol.check_live()


class RunDiagnostics(ABC):
    """Has further facts to tell of a run."""

    @abstractmethod
    def run_diagnostics(self, collected: Collected, delta: float) -> tuple[Fact, ...]:
        """Facts about what was collected, at this δ."""


def run_diagnostics(protocol: Protocol, collected: Collected, delta: float) -> tuple[Fact, ...]:
    """Facts about what was collected that a protocol alone has to tell."""
    if isinstance(protocol, RunDiagnostics):
        return protocol.run_diagnostics(collected, delta)
    return ()


class NoiseStated(ABC):
    """States its noise by a setting of its own, so that no randomizer need be named."""

    noise: ClassVar[str]
    """The setting."""
    noise_words: ClassVar[str] = ""
    noise_advice: ClassVar[str] = ""
    """Words for settings that do not keep a budget, and the remedy."""

    @classmethod
    @abstractmethod
    def asks_randomizer(cls, given: Mapping[str, Any]) -> bool:
        """Whether these settings want a randomizer with an ε0 all the same."""


def asks_randomizer(kind: type[Protocol], given: Mapping[str, Any]) -> bool:
    """Whether a randomizer with an ε0 belongs to these settings."""
    return kind.asks_randomizer(given) if issubclass(kind, NoiseStated) else True


class SampleCorrected(ABC):
    """Corrects what was collected before anything is estimated from it."""

    @abstractmethod
    def corrected(self, collected: Collected) -> Collected:
        """What was collected, with the sampling that really happened."""


def corrected(protocol: Protocol, collected: Collected) -> Collected:
    """What was collected, with the sampling that really happened where a protocol corrects it."""
    return protocol.corrected(collected) if isinstance(protocol, SampleCorrected) else collected


class Composite(ABC):
    """Consists of protocols for several questions."""

    parts: tuple[Any, ...]
    """The protocol of each question."""


def parts_of(protocol: Protocol) -> tuple[Protocol, ...]:
    """The protocol of each question as if it were the only one: itself, where there is one."""
    if isinstance(protocol, Composite):
        return protocol.parts
    if protocol.randomizer.domain != "several":
        return (protocol,)
    drawn = cast("OneOf", protocol.randomizer).parts
    return tuple(replace(protocol, randomizer=each) for each in drawn)


class Exposable(ABC):
    """Lets some people see more of a person than others do."""

    @abstractmethod
    def guarantee_against_any(self, view: str, colluders: int) -> Guarantee:
        """Proven bound against this view and any such number of people."""


def guarantee_against_any(protocol: Protocol, view: str, colluders: int) -> Guarantee:
    """Proven bound against this view and any such number of people, chosen by an attacker."""
    if isinstance(protocol, Exposable):
        return protocol.guarantee_against_any(view, colluders)
    return protocol.guarantee(view, colluders)


@dataclass(frozen=True)
class Drawing:
    """A protocol's plan, drawn for a page and for a terminal, and described in sentences."""

    svg: str
    text: str
    told: tuple[str, ...]


class Drawable(ABC):
    """Can be drawn."""

    @abstractmethod
    def drawing(self) -> Drawing:
        """The plan of messages."""


def drawing_of(protocol: Protocol) -> Drawing | None:
    """The drawing of a protocol that has one."""
    return protocol.drawing() if isinstance(protocol, Drawable) else None
