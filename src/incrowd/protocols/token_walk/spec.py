"""Token walks: private sums, histograms and models, hand to hand.

A token goes from person to person, and whoever holds it adds a contribution with noise of their
own. Nobody collects anything: the other participants, who see the token when it comes to them, are
whom people are protected from. Where the next holder is drawn from everyone, and people learn
neither from whom the token comes nor where it goes, what each of them learns is what they would
learn from a trusted curator that publishes every step (``docs/theory/token_walk.md``). From
"Privacy Amplification by Decentralization" by Cyffers and Bellet, with its theorems replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import (
    VIEWS,
    Colluders,
    Cost,
    Protocol,
    check_colluders,
    check_randomizer,
)
from incrowd.protocols.capabilities import OnGraph, TaskBound
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.named_graph import graph_named
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import COURIER, CURATOR, Actor, Address
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.settings import Parameters
from incrowd.protocols.token_walk import accountant
from incrowd.protocols.token_walk.parameters import (
    FEWEST,
    Path,
    Purpose,
    TokenWalkParameters,
    Topology,
)
from incrowd.protocols.token_walk.roles.token import Carried, TokenFormat
from incrowd.protocols.token_walk.theorems.ring import Ring
from incrowd.randomizers import Gaussian
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, Task
from incrowd.views import view_of


@dataclass(frozen=True, init=False, eq=False)
class TokenWalk(Protocol, OnGraph, TaskBound):
    """A token that people hand on, each adding a contribution."""

    kind: ClassVar[str] = "token-walk"
    parameters_type: ClassVar[type[Parameters]] = TokenWalkParameters
    collected_type: ClassVar[type[Collected]] = Carried

    randomizer: Randomizer
    parameters: TokenWalkParameters
    neighbours: Graph | None
    """Who can be next, on a graph."""
    losses: float | None
    """The largest sum of k²/m of any pair on a path that was walked."""
    broken: bool
    """Whether some steps of a walk that happened came to nothing."""

    def __init__(
        self,
        randomizer: Randomizer | None = None,
        *,
        n: int = 0,
        steps: int = 0,
        laps: int = 0,
        topology: Topology = "complete",
        task: Purpose = "auto",
        path: Path = "auto",
        sigma: float = 0.0,
        sensitivity: float = 0.0,
        lipschitz: float = 0.0,
        published: bool = False,
        spread: bool = False,
        cap: int = 0,
        tokens: int = 1,
        available: float = 1.0,
        graph: Graph | None = None,
        pair: tuple[int, int] | None = None,
    ) -> None:
        """Noise is given by a randomizer, or by ``sigma`` with how far contributions differ."""
        if graph is not None:
            checks.instance(graph, Graph, "graph", "graphs.ring(10)")
        parameters = TokenWalkParameters(
            n=n or (0 if graph is None else graph.n), steps=steps, laps=laps, topology=topology,
            task=task, path=path, sigma=sigma, sensitivity=sensitivity, lipschitz=lipschitz,
            published=published, spread=spread, cap=cap, tokens=tokens, available=available,
            pair=pair,
        )  # fmt: skip
        if randomizer is None:
            made = self.implied(parameters)
            if isinstance(made, str):
                raise InvalidParameter(f"randomizer is missing: give a {made} randomizer, or sigma")
            randomizer = made
        self._set(parameters, randomizer, graph)

    def _set(
        self, parameters: TokenWalkParameters, randomizer: Randomizer, graph: Graph | None
    ) -> None:
        _check_summable(check_randomizer(randomizer), parameters)
        if parameters.sigma and randomizer != self.implied(parameters):
            raise InvalidParameter(
                "sigma and the randomizer both state the noise: give only one", field="sigma"
            )
        if not parameters.sigma and (parameters.sensitivity or parameters.lipschitz):
            name = "sensitivity" if parameters.sensitivity else "lipschitz"
            raise InvalidParameter(
                f"{name} goes with sigma: the randomizer states its own noise", field=name
            )
        if graph is not None and parameters.topology != "graph":
            raise InvalidParameter(
                "graph needs topology graph: elsewhere nobody is a neighbour", field="graph"
            )
        if parameters.topology == "graph":
            if graph is None:
                raise InvalidParameter(
                    "graph must be given: the file that says who can talk to whom, or a family of "
                    "graphs such as regular:8",
                    field="graph",
                )
            if parameters.n not in (0, graph.n):
                raise InvalidCrowd(
                    f"{parameters.graph or 'the graph'} has {graph.n} people, but n = "
                    f"{parameters.n}: each row of the data is one person of the graph"
                )
            parameters = msgspec.structs.replace(parameters, n=graph.n)
            accountant.weights_of(graph)
        parameters = msgspec.structs.replace(
            parameters,
            task=_purpose(parameters, randomizer),
            path=parameters.path_known,
            sensitivity=0.0
            if parameters.lipschitz or not parameters.sigma
            else parameters.distance,
        )
        object.__setattr__(self, "randomizer", randomizer)
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "neighbours", graph)
        object.__setattr__(self, "losses", None)
        object.__setattr__(self, "broken", False)

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters; finds the graph that they name unless it is given."""
        if graph is None and parameters.graph:
            graph = graph_named(parameters.graph, parameters.n)
        made = cls.__new__(cls)
        made._set(parameters, randomizer, graph)
        return made

    @classmethod
    def implied(cls, parameters: TokenWalkParameters) -> str | Randomizer:
        """Gaussian noise of the sigma that is given; randomized response for a histogram."""
        if parameters.task == "histogram":
            return "krr"
        if not parameters.sigma:
            raise InvalidParameter(
                "sigma must be above 0: it is the noise of one contribution", field="sigma"
            )
        try:
            return Gaussian.with_sigma(parameters.sigma / parameters.distance)
        except InvalidParameter as error:
            raise InvalidParameter(
                f"sigma of {parameters.sigma:g} for contributions that are up to "
                f"{parameters.distance:g} apart cannot be used: {error}",
                field="sigma",
            ) from error

    @classmethod
    def asks_epsilon0(cls, given: Mapping[str, Any]) -> bool:
        """Only histograms have one; sums state their noise."""
        return given.get("task") == "histogram"

    # What is promised.

    @property
    def reads(self) -> bool:
        """Whether contributions read the token, as the steps of a model do."""
        return self.parameters.task == "sgd"

    @property
    def views(self) -> tuple[str, ...]:
        """Those of every protocol, and another participant, alone or helped."""
        return (*VIEWS, "peer", "peer+hub")

    @property
    def helpers(self) -> tuple[Address, ...]:
        """The courier, and the curator."""
        return (COURIER, CURATOR)

    def guarantee(self, view: str = "peer", colluders: Colluders = 0) -> Guarantee:
        """By who looks and what they know; see :mod:`incrowd.protocols.token_walk.accountant`."""
        walk = accountant.AccountedWalk(
            self.parameters,
            self.randomizer,
            self.reads,
            self.neighbours,
            self.losses,
            self.broken,
        )
        count = check_colluders(colluders, self.parameters.n)
        return accountant.token_guarantee(walk, view_of(view), count)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """A peer, with those who carry the token, the curator, and everyone.

        Of steps that read the token, and whose number is not capped, nothing is stated towards
        those who know the path.
        """
        views = ["peer", "peer+hub", "curator", "curator+hub"]
        if self.reads and not self.parameters.cap:
            views = ["peer", "curator"]
        if self._own_noise:
            views.append("everyone")
        return tuple(self.guarantee(view) for view in views)

    @property
    def _own_noise(self) -> bool:
        """Whether every contribution has noise of its own."""
        chosen = self.parameters
        return chosen.topology != "ring" or chosen.spread or self.randomizer.uniform_blanket

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> dict[str, Any]:
        """The noise of a contribution, what it reveals alone, and how often one contributes."""
        del guarantee, colluders
        chosen = self.parameters
        noise = getattr(self.randomizer, "sigma", None)
        return {
            "path": chosen.path_known,
            **({} if noise is None else {"sigma_per_unit": noise}),
            "contribution_epsilon": accountant.contribution(self.randomizer).epsilon(delta),
            "contributions_expected": self._expected() * chosen.tokens,
        }

    def _expected(self) -> float:
        """How often one person contributes to a token, or at most that."""
        chosen = self.parameters
        mean = chosen.length / chosen.n
        return min(mean, chosen.cap) if chosen.cap else mean

    def run_diagnostics(self, collected: Collected, delta: float) -> dict[str, Any]:
        """How many contributions came home, of how many steps."""
        del delta
        if not isinstance(collected, Carried):
            return {}
        return {"contributions": collected.reports, "steps": collected.steps}

    # What it costs.

    def cost(self) -> Cost:
        """One message per turn, with the whole token in it."""
        chosen = self.parameters
        turns = chosen.length * chosen.tokens
        # Whoever is away is asked in vain.
        asked = turns / chosen.available
        size = TokenFormat.of(self.randomizer, chosen.length).nbytes
        return Cost(
            rounds=chosen.length,
            messages_per_person=asked / chosen.n,
            bytes_per_person=asked / chosen.n * size,
            extra_people=1,
            expected_error=self._expected_error(turns),
        )

    def _expected_error(self, turns: int) -> float | None:
        chosen = self.parameters
        if chosen.topology != "ring":
            return expected_error(self.randomizer, turns, sampled=True)
        even = np.full(TokenFormat.of(self.randomizer, turns).width, 1.0 * turns)
        even /= even.size if self.randomizer.uniform_blanket else 1
        found = self.randomizer.from_tally(even, turns, self.ring_noise * chosen.tokens)
        return math.sqrt(float(np.mean(found.variance)))

    @property
    def ring_noise(self) -> float:
        """How many contributions' worth of noise a token brings home from the ring."""
        ring = self.ring
        if not self.randomizer.uniform_blanket:
            return ring.variance
        added = ring.uniform_elements(self.randomizer.blanket().gamma)
        return ring.steps + added * (2 if ring.published else 1)

    @property
    def ring(self) -> Ring:
        """The ring, where that is where the token goes."""
        chosen = self.parameters
        return Ring(chosen.n, chosen.laps, chosen.published, chosen.spread)

    # How it is run.

    def bound_to(self, task: Task) -> Self:
        """The same for every task; the steps of a model are no values that could be asked for."""
        del task
        if self.reads:
            raise InvalidParameter(
                "task sgd is trained by TokenSGD: there are no values to add up", field="task"
            )
        return self

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """Walk every token at once, in memory."""
        from incrowd.protocols.token_walk.simulate import collect

        check_crowd(self, values)
        return collect(self, values, seeds)

    def conditional_on(self, collected: Collected) -> Self:
        """All planned steps, the smallest crowd, and the path where nobody can have decided it.

        A holder who goes away because of what the token held makes a walk shorter or changes its
        path. So steps are charged as planned, a walk that was cut short is broken, and the loss of
        the path that happened is stated only if everyone was there until the last step. Whoever
        goes away takes only themselves out of the crowd. See ``docs/theory/stopping.md``.
        """
        if not isinstance(collected, Carried) or collected.reports == 0:
            raise ProtocolFailed(
                "no token came home with a contribution: give people more time, or a longer walk"
            )
        chosen = self.parameters
        if collected.crowd < FEWEST:
            raise ProtocolFailed(
                f"only {collected.crowd} people were there in the end, and so few hide nobody: "
                "give people more time"
            )
        everyone = collected.crowd == chosen.n
        # Every planned step leaves its noise in what comes home, unless it was lost or never taken;
        # and on a graph whoever is away changes where the token goes.
        lost = collected.noise < chosen.length * chosen.tokens or (
            chosen.topology == "graph" and not everyone
        )
        if chosen.topology == "complete":
            chosen = msgspec.structs.replace(chosen, n=collected.crowd)
        same = self.make(chosen, self.randomizer, self.neighbours)
        whole = everyone and collected.steps == chosen.length
        object.__setattr__(same, "losses", collected.losses if whole else None)
        return same.cut_short() if lost and chosen.topology != "ring" else same

    def cut_short(self) -> Self:
        """The same walk, of which some steps came to nothing, or were never taken.

        What came home then holds less noise than there were to be steps.
        """
        same = self.make(self.parameters, self.randomizer, self.neighbours)
        object.__setattr__(same, "losses", self.losses)
        object.__setattr__(same, "broken", True)
        return same

    def published(self) -> Parameters:
        """Without the noise, which the randomizer states, and the file of the graph."""
        return msgspec.structs.replace(
            self.parameters, sigma=0.0, sensitivity=0.0, lipschitz=0.0, graph=""
        )

    @property
    def graph(self) -> Graph | None:
        """Who can be next."""
        return self.neighbours

    def subset(self, people: Sequence[int]) -> Self:
        """A walk among fewer people; as long as before, but on a ring."""
        graph = None if self.neighbours is None else self.neighbours.subgraph(np.asarray(people))
        fewer = msgspec.structs.replace(self.parameters, n=len(people), graph="", pair=None)
        return self.make(fewer, self.randomizer, graph)

    def duration(self, timing: Timing) -> float:
        """Until the walk is over for good, however often somebody was away."""
        from incrowd.protocols.token_walk.roles.relay import walk_seconds

        return walk_seconds(self.parameters.length, timing) + super().duration(timing)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One person's device, the courier, or the curator."""
        from incrowd.protocols.token_walk.roles.device import make_actor

        return make_actor(self, address, context)


def _purpose(chosen: TokenWalkParameters, randomizer: Randomizer) -> Purpose:
    """What the token adds up, where the parameters leave it to the randomizer."""
    if chosen.task != "auto":
        return chosen.task
    return "histogram" if randomizer.uniform_blanket else "sum"


def _check_summable(randomizer: Randomizer, chosen: TokenWalkParameters) -> None:
    """Refuse randomizers whose reports cannot be added up, or whose sums are not accounted for."""
    normal = randomizer.normal_shift is not None
    counted = randomizer.summable and randomizer.uniform_blanket
    if counted or (randomizer.summable and normal):
        if chosen.task != "auto" and counted != (chosen.task == "histogram"):
            raise InvalidParameter(
                f"task {chosen.task} and the randomizer {randomizer.kind} do not go together: krr "
                "is for a histogram, gaussian for the others",
                field="task",
            )
    elif randomizer.summable and randomizer.additive:
        if chosen.topology != "ring":
            raise InvalidParameter(
                f"randomizer {randomizer.kind} is for a ring: noises that add up between two "
                "visits are accounted for where they are normal; use gaussian"
            )
    else:
        raise InvalidParameter(
            f"randomizer {randomizer.kind} cannot be added up in a token: use krr for categories, "
            "gaussian for numbers, or laplace on a ring"
        )
    if chosen.spread and not normal:
        raise InvalidParameter(
            "spread needs gaussian noise: other noise does not add up to itself", field="spread"
        )
