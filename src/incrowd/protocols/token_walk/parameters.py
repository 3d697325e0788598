"""What can be set about a token walk, and which settings go together."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.graphs.specs import names_family
from incrowd.protocols.settings import Parameters, parameter

Purpose = Literal["auto", "sum", "histogram", "sgd"]
Topology = Literal["complete", "ring", "graph"]
Path = Literal["auto", "hidden", "public"]

FEWEST = 3
"""Among fewer people whoever gets the token knows who held it before."""
_MOST_STEPS = 10**9
_MOST_ON_GRAPH = 10**6


class TokenWalkParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of :class:`incrowd.protocols.token_walk.TokenWalk`."""

    n: Annotated[
        int,
        parameter(
            "people who take part, the victim included", solve="min",
            default="counted in the graph",
        ),
    ] = 0  # fmt: skip
    task: Annotated[
        Purpose,
        parameter(
            "what the token adds up: numbers (sum), categories (histogram), or the steps of a "
            "model (sgd), which read the token",
            default="sum, or what the randomizer is for",
        ),
    ] = "auto"
    topology: Annotated[
        Topology,
        parameter("where the token goes: to anyone, around a ring, or to neighbours in a graph"),
    ] = "complete"
    steps: Annotated[
        int,
        parameter(
            "how often the token is handed on, except on a ring",
            solve="max",
            most=_MOST_STEPS,
            default="",
        ),
    ] = 0
    laps: Annotated[
        int, parameter("how often the token goes around, on a ring", solve="max", default="")
    ] = 0
    sigma: Annotated[
        float,
        parameter("standard deviation of the noise of one contribution", solve="min", default=""),
    ] = 0.0
    sensitivity: Annotated[
        float, parameter("how far apart two contributions of one person can be", default="1")
    ] = 0.0
    lipschitz: Annotated[
        float,
        parameter(
            "with sgd: the length that gradients are clipped to; two of them are twice that apart",
            default="none",
        ),
    ] = 0.0
    path: Annotated[
        Path,
        parameter(
            "whether people learn from whom the token comes and where it goes",
            default="hidden where anyone may be next, else public",
        ),
    ] = "auto"
    published: Annotated[bool, parameter("whether everybody is shown the result")] = False
    spread: Annotated[
        bool,
        parameter("on a ring: everyone adds a little noise, rather than one in n − 1 all of it"),
    ] = False
    cap: Annotated[
        int,
        parameter(
            "with a public path: contributions of one person, who adds only noise afterwards",
            default="none",
        ),
    ] = 0
    tokens: Annotated[int, parameter("tokens that walk, each for as many steps")] = 1
    available: Annotated[
        float,
        parameter(
            "in a simulation: the chance that a person is there when the token comes, and "
            "otherwise somebody else is drawn"
        ),
    ] = 1.0
    graph: Annotated[
        str,
        parameter(
            "file that says who can talk to whom, or a family of graphs such as regular:8",
            path=True,
            default="none",
        ),
    ] = ""
    pair: Annotated[
        tuple[int, int] | None,
        parameter("on a graph: state the promise of this person towards that one", default="all"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse settings that describe no walk, or that do not go together."""
        for name, words in (("task", Purpose), ("topology", Topology), ("path", Path)):
            if getattr(self, name) not in get_args(words):
                known = ", ".join(get_args(words))
                raise InvalidParameter(
                    f"{name} must be one of {known}, got {getattr(self, name)!r}", field=name
                )
        on_graph = self.topology == "graph"
        if self.n or not on_graph or names_family(self.graph):
            Parameters.__post_init__(self)
            if on_graph and self.n > _MOST_ON_GRAPH:
                raise InvalidCrowd(f"n must be at most {_MOST_ON_GRAPH:,} on a graph", field="n")
            if self.n < FEWEST:
                raise InvalidCrowd(
                    f"n must be at least {FEWEST}: among {self.n} people whoever gets the token "
                    "knows who held it before",
                    field="n",
                )
        for name, least in (("steps", 0), ("laps", 0), ("cap", 0), ("tokens", 1)):
            whole = checks.integer(getattr(self, name), name, least)
            msgspec.structs.force_setattr(self, name, whole)
        for name in ("sigma", "sensitivity", "lipschitz"):
            if checks.number(getattr(self, name), name) < 0:
                raise InvalidParameter(
                    f"{name} must not be negative, got {getattr(self, name)!r}", field=name
                )
        for name in ("published", "spread"):
            checks.instance(getattr(self, name), bool, name, "True")
        if not 0 < checks.number(self.available, "available") <= 1:
            raise InvalidParameter(
                f"available must be above 0 and up to 1, got {self.available!r}", field="available"
            )
        self._check_length()
        self._check_together()
        self._check_pair()

    def _check_length(self) -> None:
        if self.topology == "ring":
            if not self.laps:
                raise InvalidParameter("laps must be at least 1 on a ring", field="laps")
            if self.steps:
                raise InvalidParameter(
                    "steps are not for a ring: give laps, each of n steps", field="steps"
                )
        elif not self.steps:
            raise InvalidParameter("steps must be at least 1", field="steps")
        elif self.laps:
            raise InvalidParameter(
                "laps are for a ring: give steps, or topology ring", field="laps"
            )
        if self.steps > _MOST_STEPS:
            raise InvalidParameter(
                f"steps must be at most {_MOST_STEPS:,}, got {self.steps:,}", field="steps"
            )
        if self.length > _MOST_STEPS:
            raise InvalidCrowd(
                f"n must be at most {_MOST_STEPS // self.laps:,} for {self.laps:,} laps", field="n"
            )

    def _check_together(self) -> None:
        ring, graph = self.topology == "ring", self.topology == "graph"
        if self.graph and not graph:
            raise InvalidParameter(
                "graph needs topology graph: elsewhere nobody is a neighbour", field="graph"
            )
        if self.path == "hidden" and (ring or graph):
            raise InvalidParameter(
                f"path cannot be hidden on a {self.topology}: who can be next is known there; a "
                "hidden path is proven where the next one is drawn among all people",
                field="path",
            )
        if ring and self.task == "sgd":
            raise InvalidParameter(
                "task sgd is not proven on a ring: a step would read contributions that have no "
                "noise yet; use topology complete",
                field="task",
            )
        if self.spread and not ring:
            raise InvalidParameter(
                "spread is for a ring: elsewhere everyone adds all their noise", field="spread"
            )
        if not self.cap and (graph or (self.task == "sgd" and self.path == "public")):
            raise InvalidParameter(
                "cap must be at least 1 here: with a public path the promise of steps, and on a "
                "graph, rests on how often one person contributes at most",
                field="cap",
            )
        if self.cap and ring:
            raise InvalidParameter(
                "cap is not for a ring: there everyone contributes once a lap", field="cap"
            )
        if self.cap and self.path_known == "hidden":
            raise InvalidParameter(
                "cap needs a public path: counting visits that others cannot see would tell them "
                "apart; set path to public, or leave cap out",
                field="cap",
            )
        if self.available < 1 and self.topology != "complete":
            raise InvalidParameter(
                "available is for topology complete, where another can be drawn", field="available"
            )
        if self.task != "sgd" and self.lipschitz:
            raise InvalidParameter("lipschitz is for task sgd: give sensitivity", field="lipschitz")
        if self.task == "sgd" and self.sigma and not (self.lipschitz or self.sensitivity):
            raise InvalidParameter(
                "lipschitz must be above 0 with task sgd: the length that gradients are clipped to",
                field="lipschitz",
            )
        if self.lipschitz and self.sensitivity:
            raise InvalidParameter(
                "lipschitz and sensitivity say the same: give only one of them", field="lipschitz"
            )

    def _check_pair(self) -> None:
        if self.pair is None:
            return
        if self.topology != "graph":
            raise InvalidParameter(
                "pair is for a graph: elsewhere all pairs are alike or stated", field="pair"
            )
        named = self.pair if isinstance(self.pair, tuple | list) else ()
        whole = tuple(checks.integer(each, "pair (a person)", 0) for each in named)
        if len(whole) != 2 or whole[0] == whole[1]:
            raise InvalidParameter(
                f"pair must be two different people, got {self.pair!r}", field="pair"
            )
        if self.n and max(whole) >= self.n:
            raise InvalidCrowd(
                f"pair names person {max(whole)}, but people are 0 to {self.n - 1}", field="pair"
            )
        msgspec.structs.force_setattr(self, "pair", whole)

    @property
    def length(self) -> int:
        """The steps of one token."""
        return self.laps * self.n if self.topology == "ring" else self.steps

    @property
    def path_known(self) -> Literal["hidden", "public"]:
        """Whether peers know the path."""
        if self.path == "auto":
            return "hidden" if self.topology == "complete" else "public"
        return self.path

    @property
    def distance(self) -> float:
        """How far apart two contributions of one person can be, in the units of sigma."""
        return 2 * self.lipschitz or self.sensitivity or 1.0
