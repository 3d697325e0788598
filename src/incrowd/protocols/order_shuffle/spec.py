"""Order-private shuffling: keep the neighbourhood, hide the neighbour.

Everybody's place is public: coordinates, groups, or a vertex of a graph. People randomize their
answers and hand them to a shuffler, which lays them along a reference order of the places, shuffles
them so that reports stay near where they were, and puts them back. Whoever gets the table can still
see how answers change from place to place, but hardly who inside a group said what: ε0 protects the
answer, and α the order inside every group (``docs/theory/order.md``). From "A Shuffling Framework
for Local Differential Privacy" by Meehan, Roy Chowdhury, Chaudhuri and Jha, with its sensitivity
replaced by the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.protocols.api import Colluders, Cost, check_colluders, check_randomizer
from incrowd.protocols.capabilities import Coverable, OnGraph, OrderPrivate, TaskBound
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.families import ShufflerProtocol
from incrowd.protocols.named_graph import graph_named
from incrowd.protocols.order_shuffle import groupings, simulate
from incrowd.protocols.order_shuffle.accountant import (
    diagnostics,
    randomized_guarantee,
    run_diagnostics,
    shuffled_guarantee,
)
from incrowd.protocols.order_shuffle.groupings import Grouping
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.messages import PlaceFormat, placed_bytes
from incrowd.protocols.order_shuffle.orders import reference
from incrowd.protocols.order_shuffle.orders.reference import ReferenceOrder
from incrowd.protocols.order_shuffle.parameters import OrderShuffleParameters
from incrowd.protocols.order_shuffle.simulate import parts
from incrowd.protocols.order_shuffle.theorems.alpha import local_alpha
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import SHUFFLER, Actor, Address
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import CellFormat, ReportCover, against_hub
from incrowd.protocols.settings import Parameters
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, PlaceKind, Task
from incrowd.tasks.release import Placed, group_names
from incrowd.views import view_of

_AMPLIFIED = frozenset({"curator"})
_NO_RADIUS = "radius is missing: say how far a person's group reaches"


@dataclass(frozen=True, init=False, eq=False)
class OrderShuffle(ShufflerProtocol, Coverable, OnGraph, TaskBound, OrderPrivate):
    """Everyone's report goes to a shuffler, and comes out near the place it came from."""

    kind: ClassVar[str] = "order-shuffle"
    parameters_type: ClassVar[type[Parameters]] = OrderShuffleParameters
    collected_type: ClassVar[type[Collected]] = Placed

    randomizer: Randomizer
    parameters: OrderShuffleParameters
    grouping: Grouping | None
    """The groups; none where they follow from places that only the data know."""
    given: ReferenceOrder | None
    """The order, where it is given rather than found."""
    near: Graph | None
    """The graph that the groups are from."""
    places: PlaceKind
    axes: int
    """How many coordinates a place has."""
    cover: ReportCover | None
    """The timetable of cells, with cover traffic."""
    marked: bool
    """Whether a report could be told from others that say the same, in a run that happened."""
    hoped: bool
    """Whether its groups are those of everyone who may come, in a run that did not happen yet."""

    def __init__(
        self,
        randomizer: Randomizer,
        grouping: Grouping | None = None,
        *,
        order: Sequence[int] | NDArray[np.integer[Any]] | None = None,
        **settings: Any,
    ) -> None:
        """``settings`` are the fields of the parameters, such as ``alpha``."""
        found = None if order is None else reference.given_order(order)
        people = settings.pop("n", 0)
        if grouping is not None:
            made: type[Any] = Grouping
            checks.instance(grouping, made, "grouping", "grouping.from_points(points, 5.0)")
            if people not in (0, grouping.n):
                raise InvalidCrowd(f"the groups have {grouping.n} people, but n = {people}")
            people = grouping.n
        parameters = OrderShuffleParameters(n=people, **settings)
        self._set(parameters, randomizer, grouping, given=found)

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters; reads the files that they name unless a graph is given."""
        found: Grouping | None = None
        if parameters.groups:
            found = groupings.load(parameters.groups)
        elif graph is not None or parameters.graph:
            graph = graph_named(parameters.graph, parameters.n) if graph is None else graph
            steps = 1 if parameters.radius is None else int(parameters.radius)
            found = groupings.from_graph(graph, steps)
        if found is not None and parameters.n not in (0, found.n):
            named = parameters.groups or parameters.graph or "the graph"
            raise InvalidCrowd(
                f"{named} has {found.n} people, but n = {parameters.n}: each must be one person "
                "of the groups"
            )
        if found is not None:
            parameters = msgspec.structs.replace(parameters, n=found.n)
            _check_method(parameters, 0)
        given = reference.read_order(parameters.order, parameters.n) if parameters.order else None
        return cls._of(parameters, randomizer, found, given=given, near=graph)

    @classmethod
    def _of(
        cls, parameters: OrderShuffleParameters, randomizer: Randomizer, *args: Any, **more: Any
    ) -> Self:
        protocol = cls.__new__(cls)
        protocol._set(parameters, randomizer, *args, **more)
        return protocol

    def _set(
        self,
        parameters: OrderShuffleParameters,
        randomizer: Randomizer,
        grouping: Grouping | None,
        *,
        given: ReferenceOrder | None = None,
        near: Graph | None = None,
        places: PlaceKind = "people",
        axes: int = 0,
        cover: ReportCover | None = None,
        marked: bool = False,
        hoped: bool = False,
    ) -> None:
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "randomizer", check_randomizer(randomizer))
        if parameters.few_values and self._categories is None:
            raise InvalidParameter(
                "few_values needs a randomizer whose reports are categories: krr or rr",
                field="few_values",
            )
        object.__setattr__(self, "grouping", grouping)
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "near", near)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "cover", cover)
        object.__setattr__(self, "marked", marked)
        object.__setattr__(self, "hoped", hoped)

    def _but(self, *, n: int | None = None, **more: Any) -> Self:
        """The same with some things changed."""
        parameters = self.parameters
        if n is not None:
            parameters = msgspec.structs.replace(parameters, n=n)
        kept = {
            name: getattr(self, name)
            for name in ("grouping", "given", "near", "places", "axes", "cover", "marked", "hoped")
        }
        changed = {"randomizer": self.randomizer} | kept | more
        return self._of(parameters, **changed)

    def __repr__(self) -> str:
        """What is promised about the order, and the randomizer."""
        p = self.parameters
        promised = f"alpha = {p.alpha:g}" if p.alpha is not None else f"theta = {p.theta:g}"
        return f"OrderShuffle(n = {p.n}, {promised}, distance = {p.distance}, {self.randomizer})"

    # Who is near whom.

    def bound_to(self, task: Task) -> Self:
        """With the places that the question says people have."""
        places, p = task.places, self.parameters
        if places is None:
            return self
        if places == "people":
            if self.grouping is None:
                raise InvalidParameter(
                    "coordinates are missing: name the columns that say where people are "
                    "(task.coordinates) or their groups (task.groups), or give protocol.groups or "
                    "protocol.graph",
                    field="coordinates",
                )
            return self
        if self.grouping is not None:
            named = "groups" if p.groups else "graph"
            raise InvalidParameter(
                f"{named} says who is near whom, and so do the {places} of the data: give "
                "only one of them"
            )
        if places == "points" and p.radius is None:
            raise InvalidParameter(_NO_RADIUS, field="radius")
        if places == "points" and p.metric == "haversine" and task.axes != 2:
            raise InvalidParameter(
                "metric haversine needs two coordinates, latitude and then longitude, got "
                f"{task.axes}",
                field="metric",
            )
        if places == "groups" and p.radius is not None:
            raise InvalidParameter(
                "radius is not for groups that people name: leave it out", field="radius"
            )
        if p.shape == "square" and task.axes > 2:
            raise InvalidParameter(
                f"shape square is for one or two coordinates, got {task.axes}",
                field="shape",
            )
        _check_method(p, 0 if p.shape == "square" else task.axes)
        return self._but(places=places, axes=task.axes)

    def grouping_at(self, points: NDArray[Any] | None, names: Sequence[str] | None) -> Grouping:
        """The groups of people at these places."""
        if points is not None:
            reach = self.parameters.radius
            if reach is None:
                raise InvalidParameter(_NO_RADIUS, field="radius")
            squares = self.parameters.shape == "square"
            near = groupings.from_cells if squares else groupings.from_points
            return near(points, reach, self.parameters.metric)
        if names is not None:
            return groupings.from_labels([group_names(each) for each in names])
        raise InvalidParameter(
            "groups are missing: give a grouping, a graph, or a task with places", field="groups"
        )

    def at(self, grouping: Grouping) -> Self:
        """The same shuffle of people in these groups."""
        return self._but(n=grouping.n, grouping=grouping)

    def renumbered(self, people: Sequence[int]) -> Self:
        """With a given order as it is when people are numbered anew, in this order."""
        if self.given is None:
            return self
        return self._but(given=self.given.subset(np.asarray(people, np.int64)))

    def mechanism_for(self, grouping: Grouping) -> Mechanism:
        """The shuffle of these groups: its order is found once, whoever asks."""
        p = self.parameters
        order = self.given
        if order is None and p.distance == "hamming":
            order = ReferenceOrder(np.arange(grouping.n), "any")  # none is better than another
        elif order is None:
            order = _order(grouping, p.method, self.values)
        return Mechanism(grouping, order, p.distance, self.values, p.alpha, p.theta)

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The shuffle; none where the groups follow from places that only the data know."""
        return None if self.grouping is None else self.mechanism_for(self.grouping)

    @property
    def _finds_order(self) -> bool:
        """Whether the promise rests on an order that is found for the people at hand."""
        return self.given is None and self.parameters.distance == "kendall"

    @property
    def values(self) -> int | None:
        """How many different values a report can be counted on to take; none for any number."""
        return self._categories if self.parameters.few_values else None

    @property
    def _categories(self) -> int | None:
        """How many different answers there are; none where that is not known."""
        if self.randomizer.report_domain != "category":
            return None
        return int(getattr(self.randomizer, "categories", 2))

    # What is proven.

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """What is proven about each answer: ε0, against everyone."""
        return self.uncovered(view_of(view), colluders)

    def uncovered(self, view: frozenset[str], colluders: Colluders) -> Guarantee:
        """The randomizer's own promise, which needs no cover."""
        return local_guarantee(self.randomizer, 1, view, self._colluding(colluders))

    def _colluding(self, colluders: Colluders) -> int:
        if self.parameters.n or not colluders:
            return check_colluders(colluders, self.parameters.n or 1)
        raise InvalidCrowd("n must be known to count colluders: give it, or the groups", field="n")

    def order_guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee | None:
        """What is proven about the order inside each group; none where that is nothing.

        The shuffle protects against the curator, with cover also against a hub that helps: the
        order of reports. Against anybody else the randomizer does: the order of answers.
        """
        parties = view_of(view)
        count = self._colluding(colluders)
        if self.grouping is not None and self.grouping.largest == 1:
            return None  # Nobody has a group to be hidden in.
        if self.hides_traffic_from(parties):
            alone = self.order_guarantee("curator", colluders)
            return None if alone is None else against_hub(alone, alone.profile)
        if parties != _AMPLIFIED:
            return randomized_guarantee(
                self.local_alpha, grouping=self.grouping, view=parties, colluders=count
            )
        p = self.parameters
        return shuffled_guarantee(
            self.mechanism,
            alpha=p.alpha,
            few=p.few_values,
            marked=self.marked,
            hoped=self.hoped and self._finds_order and p.theta is not None,
            exact=p.exact,
            distance=p.distance,
            view=parties,
            colluders=count,
        )

    @property
    def local_alpha(self) -> float:
        """What the randomizer alone promises about the order of answers in any group."""
        people = self.parameters.n if self.grouping is None else self.grouping.largest
        if not people:
            return math.inf  # Nobody knows yet how many there are.
        # A permutation takes several steps, and only a pure ε0 adds up without any δ.
        return local_alpha(LocalProfile(self.randomizer).greatest_loss, people, self._categories)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """For each view what is proven about answers, and then about their order."""
        about = (self.order_guarantee(view) for view in self.stated)
        return (
            *super().guarantees(),
            *(each for each in about if each is not None),
        )

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> dict[str, Any]:
        """The shuffle and its groups."""
        del delta
        return diagnostics(self, "+".join(sorted(guarantee.view)), colluders)

    def run_diagnostics(self, collected: Collected, delta: float) -> dict[str, Any]:
        """The shuffle that took place, and what it meant for places."""
        del delta
        return self.conditional_on(collected).shuffled(getattr(collected, "points", None))

    def shuffled(self, points: NDArray[Any] | None = None) -> dict[str, Any]:
        """The shuffle of known groups, and what it means for places where these have points."""
        return run_diagnostics(self, points)

    # What it costs.

    def cost(self) -> Cost:
        """One message, with the place."""
        payload = self.randomizer.report_bytes
        return Cost(
            rounds=1,
            messages_per_person=1,
            bytes_per_person=placed_bytes(payload, self.places, self.axes),
            expected_error=expected_error(self.randomizer, self.parameters.n),
        )

    def covered(self, delta: float, cells: CellFormat) -> tuple[Self, ReportCover]:
        """With the same cells from everyone to the shuffler; their number needs no δ."""
        del delta
        report = self.randomizer.report_bytes + cells.seal
        plan = ReportCover(SHUFFLER, cells.needed(placed_bytes(report, self.places, self.axes)))
        return self._but(cover=plan), plan

    # How it is run.

    @property
    def graph(self) -> Graph | None:
        """The graph that says who is near whom."""
        return self.near

    def published(self) -> OrderShuffleParameters:
        """Without the name of the graph's file; files of groups and orders stay on one machine."""
        if not self.parameters.exact:
            raise InvalidParameter(
                "exact must be true where people really take part", field="exact"
            )
        if self.parameters.theta is not None and self._finds_order:
            # The shuffler finds its order in floating point; the curator's machine may find another
            # one, and would state the α of that.
            raise InvalidParameter(
                "theta is for one machine: give alpha where people take part", field="theta"
            )
        for name in ("groups", "order"):
            if getattr(self.parameters, name):
                raise InvalidParameter(
                    f"{name} is a file of this machine, which devices do not have: "
                    + (
                        "name a column with everyone's groups (task.groups) instead"
                        if name == "groups"
                        else "leave it out to have the order found"
                    )
                )
        return msgspec.structs.replace(self.parameters, graph="")

    def subset(self, people: Sequence[int]) -> Self:
        """A smaller crowd, in the groups that remain."""
        kept = np.asarray(people, np.int64)
        fewer = None if self.grouping is None else self.grouping.subset(kept)
        order = self.given
        if order is None and self.parameters.theta is not None and self.mechanism is not None:
            # An order that was found anew for fewer people could be worse; what is left of this
            # one is not, so that the promise of a given θ holds whoever stays away.
            order = self.mechanism.order
        return self._but(
            n=kept.size, grouping=fewer, given=None if order is None else order.subset(kept)
        )

    @property
    def place_format(self) -> PlaceFormat:
        """What a place looks like on its way."""
        p = self.parameters
        return PlaceFormat.of(self.places, self.axes, p.metric, p.radius)

    def prospective(self, values: NDArray[Any]) -> Self:
        """In the groups of these people, should all of them come."""
        if self.grouping is not None:
            return self
        _, points, names = parts(values, self.place_format)
        return self.at(self.grouping_at(points, names))._but(hoped=True)

    def conditional_on(self, collected: Collected) -> Self:
        """The shuffle of the people whose reports the shuffler had.

        There is one release, so that attendance and the clock alone decide who is in it.
        """
        if not isinstance(collected, Placed) or not len(collected.who):
            raise ProtocolFailed(
                f"none of the {collected.sent} reports arrived: lower the faults or give people "
                "more time"
            )
        who = collected.who
        found = self if len(who) == self.parameters.n else self.subset(who.tolist())
        if found.grouping is None:
            found = found.at(self.grouping_at(collected.points, collected.groups))
        return found._but(marked=len(collected.at) < len(who), hoped=False)

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """Everyone's reports at once."""
        check_crowd(self, values)
        return simulate.collect(self, values, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One person's device, the shuffler, or the curator."""
        from incrowd.protocols.order_shuffle.roles import make_actor

        return make_actor(self, address, context)


def _check_method(parameters: OrderShuffleParameters, axes: int) -> None:
    """Refuse a way to find an order that does not apply, before anybody answers."""
    needs = reference.lacking(parameters.method, axes=axes, radius=parameters.radius)
    if needs is not None:
        raise InvalidParameter(
            f"method {parameters.method} needs {needs}; use best", field="method"
        )


@lru_cache(maxsize=8)
def _order(grouping: Grouping, method: str, values: int | None) -> ReferenceOrder:
    return reference.reference_order(grouping, method, values=values)
