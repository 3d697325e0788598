"""Several questions, each by a protocol of its own, asked of the same people at the same time.

Reports of different questions travel apart, so that the crowd hides each of them by itself, and
what all of them reveal about one person is the composition of what each reveals: the curves are
those of independent mechanisms about the same record (``docs/theory/composition.md``). One report
with the answers to all questions in it would be hidden much worse, as amplification falls
exponentially in the ε0 of what is shuffled.

All parts are protocols of one kind among the same people. A party plays its part in each of them
(``roles``); under cover the timetables are added up (``cover``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols import capabilities
from incrowd.protocols.api import Colluders, Cost, Progress, Protocol
from incrowd.protocols.joint.collected import JointCollected, collected_type
from incrowd.protocols.joint.cover import JointCover, cells_of_part
from incrowd.protocols.joint.roles import MOST, JointActor, column_of, to_every
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import Actor, Address
from incrowd.protocols.runtime.context import ActorContext, Connections, Timing
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan
from incrowd.randomizers.joint import JointRandomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


@dataclass(frozen=True)
class JointProtocol(
    Protocol,
    capabilities.Composite,
    capabilities.Plannable,
    capabilities.OnGraph,
    capabilities.Coverable,
    capabilities.Routed,
    capabilities.Attested,
    capabilities.MachineBound,
    capabilities.SampleCorrected,
    capabilities.Exposable,
):
    """Protocols of one kind, one per question, among the same people."""

    kind: ClassVar[str] = "joint"

    _: KW_ONLY
    parts: tuple[Protocol, ...]
    cover: CoverPlan | None = None

    @classmethod
    def of(cls, parts: Sequence[Protocol]) -> Self:
        """Put protocols together that ask the same people."""
        randomizer = JointRandomizer(parts=tuple(each.randomizer for each in parts))
        return cls(randomizer, n=parts[0].n, parts=tuple(parts))

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds, people = ({getattr(x, name) for x in self.parts} for name in ("kind", "n"))
        if len(kinds) != 1 or len(people) != 1 or len(self.parts) > MOST:
            raise InvalidParameter(
                f"at most {MOST} questions go together, by one protocol and of the same people"
            )
        object.__setattr__(self, "kind", *kinds)

    @property
    def collected_type(self) -> type[JointCollected]:  # type: ignore[override]
        return collected_type(tuple(part.collected_type for part in self.parts))

    @property
    def views(self) -> tuple[str, ...]:
        return self.parts[0].views

    @property
    def helpers(self) -> tuple[Address, ...]:
        return self.parts[0].helpers

    @property
    def graph(self) -> Graph | None:
        return capabilities.graph_of(self.parts[0])

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        return _composed([part.guarantee(view, colluders) for part in self.parts])

    def guarantee_against_any(self, view: str, colluders: int) -> Guarantee:
        any_people = partial(capabilities.guarantee_against_any, view=view, colluders=colluders)
        return _composed([any_people(part) for part in self.parts])

    def planned(
        self, delta: float, *, colluders: Colluders = 0, progress: Progress | None = None
    ) -> Self:
        share = delta / len(self.parts)
        return self._each(
            lambda part: capabilities.planned(part, share, colluders=colluders, progress=progress)
        )

    def cost(self) -> Cost:
        costs = [part.cost() for part in self.parts]
        return Cost(
            rounds=max(each.rounds for each in costs),
            messages_per_person=sum(each.messages_per_person for each in costs),
            bytes_per_person=sum(each.bytes_per_person for each in costs),
            extra_people=max(each.extra_people for each in costs),
        )

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return self._collected(
            lambda number, part: part.collect(
                column_of(values, number, part), seeds.child("question", number)
            )
        )

    def actor(self, address: Address, context: ActorContext) -> Actor:
        return JointActor(address, self.parts, context)

    def contacts(self, person: int) -> tuple[Address, ...]:
        near = (capabilities.contacts_of(part, person) for part in self.parts)
        return tuple(dict.fromkeys(address for each in near for address in each))

    def duration(self, timing: Timing) -> float:
        return max(part.duration(timing) for part in self.parts)

    def subset(self, people: Sequence[int]) -> Self:
        return self._each(lambda part: part.subset(people))

    def covered(self, delta: float, cells: CellFormat) -> Self:
        smaller = cells_of_part(cells)
        share = delta / len(self.parts)
        joint = self._each(lambda part: capabilities.covered(part, share, smaller))
        plans = tuple(filter(None, map(capabilities.cover_of, joint.parts)))
        return replace(joint, cover=JointCover(plans))

    def conditional_on(self, collected: Collected) -> Self:
        pairs = zip(self.parts, collected.parts, strict=True)
        return replace(self, parts=tuple(part.conditional_on(each) for part, each in pairs))

    def corrected(self, collected: Collected) -> Collected:
        found = collected.parts
        return self._collected(lambda number, part: capabilities.corrected(part, found[number]))

    @property
    def absence_message(self) -> bytes | None:
        body = capabilities.absence_message(self.parts[0])
        return None if body is None else to_every(body)

    def attested(self, collected: Collected, connections: Connections, timing: Timing) -> Collected:
        found = collected.parts
        return self._collected(
            lambda number, part: capabilities.attested(part, found[number], connections, timing)
        )

    def check_live(self) -> None:
        for part in self.parts:
            capabilities.check_live(part)

    def _each(self, change: Callable[[Protocol], Protocol]) -> Self:
        parts = tuple(map(change, self.parts))
        return replace(self, n=parts[0].n, parts=parts, cover=None)

    def _collected(self, of: Callable[[int, Protocol], Collected]) -> JointCollected:
        parts = tuple(of(number, part) for number, part in enumerate(self.parts))
        return self.collected_type.of(parts)


def _composed(guarantees: Sequence[Guarantee]) -> Guarantee:
    first, *others = guarantees
    return first.compose(*others) if others else first
