"""Order-private shuffling: keep the neighbourhood, hide the neighbour.

Everybody's place is public: coordinates, groups, or a vertex of a graph. People randomize their
answers and hand them to a shuffler, which lays them along a reference order of the places, shuffles
them so that reports stay near where they were, and puts them back. Readers of the table can still
see how answers change from place to place, but hardly who inside a group said what: ε0 protects the
answer, and α the order inside every group (``docs/theory/order.md``). From "A Shuffling Framework
for Local Differential Privacy" by Meehan, Roy Chowdhury, Chaudhuri and Jha, with its sensitivity
replaced by the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.blocks import Fact, facts_from
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed, located
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.protocols.api import Colluders, Cost, check_colluders
from incrowd.protocols.capabilities import (
    Coverable,
    MachineBound,
    OnGraph,
    OrderPrivate,
    RunDiagnostics,
    TaskBound,
)
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.families import ShufflerProtocol
from incrowd.protocols.named_graph import load_graph
from incrowd.protocols.order_shuffle import accountant, groupings, simulate
from incrowd.protocols.order_shuffle.groupings import Grouping
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.messages import PlaceFormat, placed_bytes
from incrowd.protocols.order_shuffle.orders import reference
from incrowd.protocols.order_shuffle.orders.reference import ReferenceOrder, given_order
from incrowd.protocols.order_shuffle.settings import Distance, Method, Metric, Shape
from incrowd.protocols.order_shuffle.simulate import parts
from incrowd.protocols.order_shuffle.theorems.alpha import local_alpha
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Actor, Address
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import CellFormat, ReportCover, against_hub
from incrowd.protocols.runtime.wire import ReportFormat
from incrowd.protocols.settings import crowd_or_open, setting, source
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, PlaceKind, Task
from incrowd.tasks.release import Placed, group_names
from incrowd.views import view_name, view_of

_AMPLIFIED = frozenset({"curator"})
_NO_RADIUS = "radius is missing: say how far a person's group reaches"


def _load_groups(settings: Mapping[str, Any], at_hand: Grouping | None) -> Grouping | None:
    return at_hand or (groupings.load(settings["groups"]) if settings["groups"] else None)


def _load_order(settings: Mapping[str, Any], at_hand: Any) -> Any:
    return reference.read_order(settings["order"]) if settings["order"] else at_hand


@dataclass(frozen=True, eq=False, repr=False)
class OrderShuffle(
    ShufflerProtocol, Coverable, OnGraph, TaskBound, OrderPrivate, RunDiagnostics, MachineBound
):
    """Everyone's report goes to a shuffler, and comes out near the place it came from."""

    kind: ClassVar[str] = "order-shuffle"
    collected_type: ClassVar[type[Collected]] = Placed

    _: KW_ONLY
    n: Annotated[
        int,
        setting(
            "people who take part, the victim included",
            check=crowd_or_open,
            default="counted in the groups or the data",
        ),
    ] = 0
    alpha: Annotated[
        float | None,
        setting("the α of the order inside any group; 0 mixes all groups uniformly"),
    ] = None
    theta: Annotated[
        float | None, setting("concentration of the shuffle around the order, in place of alpha")
    ] = None
    distance: Annotated[
        Distance,
        setting(
            "distance of a shuffle from the order: pairs that change sides, or people who get "
            "another's report"
        ),
    ] = "kendall"
    groups: Annotated[
        Grouping | None,
        source(
            "JSON file with the groups: a list of lists of people, or everyone's own by number",
            _load_groups,
        ),
    ] = None
    graph: Annotated[
        Graph | None,
        source(
            "file or family of graphs in which people within radius steps are a group", load_graph
        ),
    ] = None
    radius: Annotated[
        float | None, setting("reach of a person's group: a distance, or steps in the graph")
    ] = None
    metric: Annotated[
        Metric,
        setting("distance between people: that of the numbers, or kilometres on the globe"),
    ] = "euclidean"
    shape: Annotated[
        Shape,
        setting(
            "people of a group: those within the radius of a person, or those in the same "
            "square of that width"
        ),
    ] = "ball"
    order: Annotated[
        ReferenceOrder | Sequence[int] | NDArray[np.integer[Any]] | None,
        source(
            "JSON file with the reference order: a list of people, the first is at rank 0",
            _load_order,
        ),
    ] = None
    method: Annotated[
        Method,
        setting("search for the reference order; best tries all and keeps the least sensitive"),
    ] = "best"
    few_values: Annotated[
        bool,
        setting(
            "count on every report being one of the categories, so that nobody can mark theirs: "
            "with few of them less has to be shuffled"
        ),
    ] = False
    exact: Annotated[
        bool,
        setting(
            "draw the shuffle in whole numbers only, so that not even rounding shows; otherwise "
            "in doubles, for simulations"
        ),
    ] = True
    grouping: Grouping | None = None
    """Groups of the people; none where they follow from places that only the data know."""
    given: ReferenceOrder | None = None
    """Reference order, where it is given rather than found."""
    places: PlaceKind = "people"
    axes: int = 0
    """Number of coordinates of a place."""
    marked: bool = False
    """Whether a report could be told from others that say the same, in a run that happened."""
    prospective_groups: bool = False
    """Whether the groups are those of all who may come, in a run that did not happen yet."""

    def _resolved(self) -> Mapping[str, Any]:
        if self.n:
            checks.crowd(self.n)
        if self.alpha is None and self.theta is None:
            missing = "alpha must be given: how much may be told about the order inside a group"
            raise InvalidParameter(missing, field="alpha")
        if self.alpha is not None and self.theta is not None:
            twice = "theta follows from alpha and the groups: give only one of them"
            raise InvalidParameter(twice, field="theta")
        self._check_places()
        if self.few_values and self._categories is None:
            needs = "few_values needs a randomizer whose reports are categories: krr or rr"
            raise InvalidParameter(needs, field="few_values")
        grouping, named = self._given_groups(), self.names.get("groups") or self.names.get("graph")
        people = self.n
        if grouping is not None:
            if people not in (0, grouping.n):
                where, what = (named, "has") if named else ("the groups", "have")
                more = ": each must be one person of the groups" if named else ""
                raise InvalidCrowd(f"{where} {what} {grouping.n} people, but n = {people}{more}")
            people = grouping.n
            if named or (self.graph is not None and self.groups is None):
                _check_method(self, 0)
        given = self.given
        if given is None and self.order is not None:
            order: Any = getattr(self.order, "people", self.order)
            file = self.names.get("order")
            with located(*([file] if file else [])):
                given = given_order(order, people)
        return {"n": people, "grouping": grouping, "given": given}

    def _given_groups(self) -> Grouping | None:
        if self.grouping is not None or self.groups is not None:
            found = self.groups if self.grouping is None else self.grouping
            abstract: Any = Grouping
            checks.instance(found, abstract, "groups", "groupings.from_points(points, 5.0)")
            return found
        if self.graph is not None:
            steps = 1 if self.radius is None else int(self.radius)
            return groupings.from_graph(self.graph, steps)
        return None

    def _check_places(self) -> None:
        groups, graph = self.names.get("groups"), self.names.get("graph")
        radius, odd = self.radius, "shape" if self.shape != "ball" else "metric"
        unfit = (groups or graph) and (self.shape, self.metric) != ("ball", "euclidean")
        on_graph = self.graph is not None
        both = on_graph and self.groups is not None
        broken = on_graph and radius is not None and radius % 1 != 0
        flat = self.shape == "square" and not radius
        unsought = self.names.get("order") and self.method != "best"
        checked = (
            (both, "groups and graph both say who is near whom: give only one"),
            (unfit, f"{odd} is for coordinates, not for groups or a graph"),
            (groups and radius is not None, "radius is not for given groups: leave it out"),
            (broken, f"radius must be a whole number of steps in a graph, got {radius!r}"),
            (flat, "radius must be above 0 for squares: how wide they are"),
            (unsought, "method is not for a given order: leave it out"),
        )
        for wrong, said in checked:
            if wrong:
                raise InvalidParameter(said, field=said.split()[0])

    def __repr__(self) -> str:
        kept = f"theta = {self.theta:g}" if self.alpha is None else f"alpha = {self.alpha:g}"
        return f"OrderShuffle(n = {self.n}, {kept}, distance = {self.distance}, {self.randomizer})"

    # Who is near whom.

    def bound_to(self, task: Task) -> Self:
        places = task.places
        if places is None:
            return self
        if places == "people":
            if self.grouping is None:
                raise InvalidParameter(
                    "coordinates are missing: let the question name the columns that say where "
                    "people are (coordinates) or their groups (groups), or give protocol.groups or "
                    "protocol.graph",
                    field="coordinates",
                )
            return self
        if self.grouping is not None:
            named = "graph" if self.groups is None else "groups"
            raise InvalidParameter(
                f"{named} says who is near whom, and so do the {places} of the data: give "
                "only one of them"
            )
        if places == "points" and self.radius is None:
            raise InvalidParameter(_NO_RADIUS, field="radius")
        if places == "points" and self.metric == "haversine" and task.axes != 2:
            needs = "metric haversine needs two coordinates, latitude and then longitude, got"
            raise InvalidParameter(f"{needs} {task.axes}", field="metric")
        if places == "groups" and self.radius is not None:
            unfit = "radius is not for groups that people name: leave it out"
            raise InvalidParameter(unfit, field="radius")
        if self.shape == "square" and task.axes > 2:
            unfit = f"shape square is for one or two coordinates, got {task.axes}"
            raise InvalidParameter(unfit, field="shape")
        _check_method(self, 0 if self.shape == "square" else task.axes)
        return replace(self, places=places, axes=task.axes)

    def grouping_at(self, points: NDArray[Any] | None, names: Sequence[str] | None) -> Grouping:
        """The groups of people at these places."""
        if points is not None:
            if self.radius is None:
                raise InvalidParameter(_NO_RADIUS, field="radius")
            squares = self.shape == "square"
            near = groupings.from_cells if squares else groupings.from_points
            return near(points, self.radius, self.metric)
        if names is not None:
            return groupings.from_labels([group_names(each) for each in names])
        raise InvalidParameter(
            "groups are missing: give a grouping, a graph, or a task with places", field="groups"
        )

    def at(self, grouping: Grouping) -> Self:
        """The same shuffle of people in these groups."""
        return replace(self, n=grouping.n, grouping=grouping)

    def renumbered(self, people: Sequence[int]) -> Self:
        """With a given order as it is when people are numbered anew, in this order."""
        if self.given is None:
            return self
        return replace(self, given=self.given.subset(np.asarray(people, np.int64)))

    def mechanism_for(self, grouping: Grouping) -> Mechanism:
        """The shuffle of these groups: its order is found once."""
        order, values = self.given, self.values
        if order is None and self.distance == "hamming":
            order = ReferenceOrder(np.arange(grouping.n), "any")  # none is better than another
        elif order is None:
            order = _order(grouping, self.method, values)
        return Mechanism(grouping, order, self.distance, values, self.alpha, self.theta)

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The shuffle; none where the groups follow from places that only the data know."""
        return None if self.grouping is None else self.mechanism_for(self.grouping)

    @property
    def _finds_order(self) -> bool:
        """Whether the guarantee rests on an order that is found for the people at hand."""
        return self.given is None and self.distance == "kendall"

    @property
    def values(self) -> int | None:
        """How many different values a report can be counted on to take; none for any number."""
        return self._categories if self.few_values else None

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
        """The randomizer's own guarantee, which needs no cover."""
        return local_guarantee(self.randomizer, 1, view, self._colluding(colluders))

    def _colluding(self, colluders: Colluders) -> int:
        if self.n or not colluders:
            return check_colluders(colluders, self.n or 1)
        raise InvalidCrowd("n must be known to count colluders: give it, or the groups", field="n")

    def order_guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee | None:
        # The shuffle protects against the curator, with cover also against a hub that helps: the
        # order of reports. Against any other view the randomizer does: the order of answers.
        parties, count = view_of(view), self._colluding(colluders)
        if self.grouping is not None and self.grouping.largest == 1:
            return None  # Nobody has a group to be hidden in.
        if self.hides_traffic_from(parties):
            alone = self.order_guarantee("curator", colluders)
            return None if alone is None else against_hub(alone, alone.profile)
        if parties != _AMPLIFIED:
            return accountant.randomized_guarantee(
                self.local_alpha, grouping=self.grouping, view=parties, colluders=count
            )
        return accountant.shuffled_guarantee(
            self.mechanism,
            alpha=self.alpha,
            few=self.few_values,
            marked=self.marked,
            prospective=self.prospective_groups and self._finds_order and self.theta is not None,
            exact=self.exact,
            distance=self.distance,
            view=parties,
            colluders=count,
        )

    @property
    def local_alpha(self) -> float:
        """Guarantee of the randomizer alone about the order of answers in any group."""
        people = self.n if self.grouping is None else self.grouping.largest
        if not people:
            return math.inf  # Nobody knows yet how many there are.
        # A permutation takes several steps, and only a pure ε0 adds up without any δ.
        return local_alpha(LocalProfile(self.randomizer).greatest_loss, people, self._categories)

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> tuple[Fact, ...]:
        del delta
        found = accountant.diagnostics(self, view_name(guarantee.view), colluders)
        return facts_from(found, accountant.UPPER)

    def run_diagnostics(self, collected: Collected, delta: float) -> tuple[Fact, ...]:
        del delta
        return self.conditional_on(collected).shuffled(getattr(collected, "points", None))

    def shuffled(self, points: NDArray[Any] | None = None) -> tuple[Fact, ...]:
        """The shuffle of known groups, and how far it moves reports where places are points."""
        return facts_from(accountant.run_diagnostics(self, points), accountant.UPPER)

    # What it costs.

    def cost(self) -> Cost:
        return Cost(
            rounds=1,
            messages_per_person=1,
            bytes_per_person=placed_bytes(self.randomizer.report_bytes, self.places, self.axes),
            expected_error=expected_error(self.randomizer, self.n),
        )

    def covered(self, delta: float, cells: CellFormat) -> Self:
        del delta
        report = self.randomizer.report_bytes + cells.seal
        needed = cells.needed(placed_bytes(report, self.places, self.axes))
        return replace(self, cover=ReportCover(SHUFFLER, needed))

    # How it is run.

    def check_live(self) -> None:
        """Refuse what one machine alone can do: files, an order found anew, sampling in doubles."""
        if not self.exact:
            raise InvalidParameter(
                "exact must be true where people really take part", field="exact"
            )
        if self.theta is not None and self._finds_order:
            # The shuffler finds its order in floating point; the curator's machine may find another
            # one, and would state the α of that.
            alone = "theta is for one machine: give alpha where people take part"
            raise InvalidParameter(alone, field="theta")
        column = "name a column with everyone's groups (groups of the question) instead"
        for name, instead in ("groups", column), ("order", "leave it out to have the order found"):
            if self.names.get(name):
                where = "is a file of this machine, which devices do not have"
                raise InvalidParameter(f"{name} {where}: {instead}")

    def subset(self, people: Sequence[int]) -> Self:
        kept = np.asarray(people, np.int64)
        fewer = None if self.grouping is None else self.grouping.subset(kept)
        order = self.given
        if order is None and self.theta is not None and self.mechanism is not None:
            # An order that was found anew for fewer people could be worse; what is left of this
            # one is not, so that the guarantee of a given θ holds whoever stays away.
            order = self.mechanism.order
        given = None if order is None else order.subset(kept)
        return replace(self, n=kept.size, grouping=fewer, given=given)

    @property
    def place_format(self) -> PlaceFormat:
        """What a place looks like on its way."""
        return PlaceFormat.of(self.places, self.axes, self.metric, self.radius)

    def prospective(self, values: NDArray[Any]) -> Self:
        if self.grouping is not None:
            return self
        _, points, names = parts(values, self.place_format)
        return replace(self.at(self.grouping_at(points, names)), prospective_groups=True)

    def conditional_on(self, collected: Collected) -> Self:
        # There is one release, so that attendance and the clock alone decide who is in it.
        if not isinstance(collected, Placed) or not len(collected.who):
            raise ProtocolFailed(
                f"none of the {collected.sent} reports arrived: lower the faults or give people "
                "more time"
            )
        came = len(collected.who)
        found = self if came == self.n else self.subset(collected.who.tolist())
        if found.grouping is None:
            found = found.at(self.grouping_at(collected.points, collected.groups))
        return replace(found, marked=len(collected.at) < came, prospective_groups=False)

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self, values, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        from incrowd.protocols.order_shuffle.roles import Curator, Device, Shuffler

        reports = ReportFormat.of(self.randomizer)
        if address == CURATOR:
            return Curator(self.n, reports, self.place_format, sealer=context.sealer)
        if address == SHUFFLER:
            return Shuffler(self, reports.nbytes, context)
        return Device(self, context)


def _check_method(protocol: OrderShuffle, axes: int) -> None:
    """Refuse a way to find an order that does not apply, before anybody answers."""
    needs = reference.lacking(protocol.method, axes=axes, radius=protocol.radius)
    if needs is not None:
        raise InvalidParameter(f"method {protocol.method} needs {needs}; use best", field="method")


@lru_cache(maxsize=8)
def _order(grouping: Grouping, method: str, values: int | None) -> ReferenceOrder:
    return reference.reference_order(grouping, method, values=values)
