"""What can be set about an order-private shuffle, and which settings go together."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.settings import Parameters, parameter

Distance = Literal["kendall", "hamming"]
Metric = Literal["euclidean", "haversine"]
Shape = Literal["ball", "square"]
Method = Literal["best", "label", "coordinate", "hilbert", "strips", "bfs", "bfs-peripheral", "rcm"]


class OrderShuffleParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of :class:`incrowd.protocols.order_shuffle.OrderShuffle`."""

    n: Annotated[
        int,
        parameter(
            "people who take part, the victim included", default="counted in the groups or the data"
        ),
    ] = 0
    alpha: Annotated[
        float | None,
        parameter(
            "how much may be told about the order inside any group; 0 mixes all groups uniformly"
        ),
    ] = None
    theta: Annotated[
        float | None,
        parameter("how closely the shuffle keeps to the order, in place of alpha"),
    ] = None
    distance: Annotated[
        Distance,
        parameter(
            "how far a shuffle is from the order: by pairs that change sides, or by people who get "
            "another's report"
        ),
    ] = "kendall"
    groups: Annotated[
        str,
        parameter(
            "JSON file with the groups: a list of lists of people, or everyone's own by number",
            path=True,
            default="none",
        ),
    ] = ""
    graph: Annotated[
        str,
        parameter(
            "file or family of graphs in which people within radius steps are a group",
            path=True,
            default="none",
        ),
    ] = ""
    radius: Annotated[
        float | None,
        parameter("how far a person's group reaches: a distance, or steps in the graph"),
    ] = None
    metric: Annotated[
        Metric,
        parameter(
            "what distance means: that of the numbers, or kilometres between latitude and longitude"
        ),
    ] = "euclidean"
    shape: Annotated[
        Shape,
        parameter(
            "whom a group has: everybody within the radius of a person, or everybody in the same "
            "square so wide"
        ),
    ] = "ball"
    order: Annotated[
        str,
        parameter(
            "JSON file with the reference order: a list of people, the first is at rank 0",
            path=True,
            default="none",
        ),
    ] = ""
    method: Annotated[
        Method,
        parameter("how the reference order is found; best tries all and keeps the least sensitive"),
    ] = "best"
    few_values: Annotated[
        bool,
        parameter(
            "count on every report being one of the categories, so that nobody can mark theirs: "
            "with few of them less has to be shuffled"
        ),
    ] = False
    exact: Annotated[
        bool,
        parameter(
            "draw the shuffle in whole numbers only, so that not even rounding shows; otherwise "
            "in doubles, for simulations"
        ),
    ] = True

    def __post_init__(self) -> None:
        """Refuse settings that describe no shuffle, or that do not go together."""
        if self.n:
            Parameters.__post_init__(self)
        chosen = {"distance": Distance, "metric": Metric, "shape": Shape, "method": Method}
        for name, words in chosen.items():
            if getattr(self, name) not in get_args(words):
                known = ", ".join(get_args(words))
                raise InvalidParameter(
                    f"{name} must be one of {known}, got {getattr(self, name)!r}", field=name
                )
        for name in ("alpha", "theta", "radius"):
            value = getattr(self, name)
            if value is not None:
                if checks.number(value, name) < 0:
                    raise InvalidParameter(f"{name} must be at least 0, got {value!r}", field=name)
                msgspec.structs.force_setattr(self, name, float(value))
        for name in ("few_values", "exact"):
            checks.instance(getattr(self, name), bool, name, "True")
        if self.alpha is None and self.theta is None:
            raise InvalidParameter(
                "alpha must be given: how much may be told about the order inside a group",
                field="alpha",
            )
        if self.alpha is not None and self.theta is not None:
            raise InvalidParameter(
                "theta follows from alpha and the groups: give only one of them", field="theta"
            )
        self._check_places()

    def _check_places(self) -> None:
        if self.groups and self.graph:
            raise InvalidParameter(
                "groups and graph both say who is near whom: give only one", field="groups"
            )
        if (self.groups or self.graph) and (self.shape, self.metric) != ("ball", "euclidean"):
            odd = "shape" if self.shape != "ball" else "metric"
            raise InvalidParameter(
                f"{odd} is for coordinates, not for groups or a graph", field=odd
            )
        if self.groups and self.radius is not None:
            raise InvalidParameter("radius is not for given groups: leave it out", field="radius")
        if self.graph and self.radius is not None and self.radius != int(self.radius):
            raise InvalidParameter(
                f"radius must be a whole number of steps in a graph, got {self.radius!r}",
                field="radius",
            )
        if self.shape == "square" and not self.radius:
            raise InvalidParameter(
                "radius must be above 0 for squares: how wide they are", field="radius"
            )
        if self.order and self.method != "best":
            raise InvalidParameter("method is not for a given order: leave it out", field="method")
