"""Token walks: private sums, histograms and models, hand to hand.

A token goes from person to person, and each holder adds a contribution with noise of their own.
No party collects anything: people are protected from the other participants, who see the token when
it comes to them. Where the next holder is drawn from everyone, and people learn
neither from whom the token comes nor where it goes, what each of them learns is what they would
learn from a trusted curator that publishes every step (``docs/theory/token_walk.md``). From
"Privacy Amplification by Decentralization" by Cyffers and Bellet, with its theorems replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.blocks import Fact
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import VIEWS, Colluders, Cost, Protocol, check_colluders
from incrowd.protocols.capabilities import NoiseStated, OnGraph, RunDiagnostics, TaskBound
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.named_graph import Contacts, CountedCrowd
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import COURIER, CURATOR, Actor, Address
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.settings import refuse, setting
from incrowd.protocols.token_walk import accountant, simulate
from incrowd.protocols.token_walk.roles.token import Carried, TokenFormat
from incrowd.protocols.token_walk.theorems.ring import Ring
from incrowd.randomizers import Gaussian
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, Task
from incrowd.views import view_of

Contribution = Literal["auto", "sum", "histogram", "sgd"]
Topology = Literal["complete", "ring", "graph"]
Path = Literal["auto", "hidden", "public"]

FEWEST = 3
"""Among fewer people the holder of a token knows who held it before."""
_MOST_STEPS = 10**9
_MOST_ON_GRAPH = 10**6


@dataclass(frozen=True, eq=False)
class TokenWalk(Protocol, OnGraph, TaskBound, NoiseStated, RunDiagnostics):
    """A token that people hand on, each adding a contribution.

    Noise is given by a randomizer, or by ``sigma`` with how far contributions differ.
    """

    kind: ClassVar[str] = "token-walk"
    collected_type: ClassVar[type[Collected]] = Carried
    noise: ClassVar[str] = "sigma"

    randomizer: Randomizer = None  # type: ignore[assignment]  # resolved from sigma
    _: KW_ONLY
    n: CountedCrowd = 0
    contribution: Annotated[
        Contribution,
        setting(
            "values that the token adds up: numbers (sum), categories (histogram), or the steps of "
            "a model (sgd), which read the token",
            default="sum, or what the randomizer is for",
        ),
    ] = "auto"
    topology: Annotated[
        Topology,
        setting("way of the token: to anyone, around a ring, or to neighbours in a graph"),
    ] = "complete"
    steps: Annotated[
        int,
        setting(
            "number of times the token is handed on, except on a ring",
            solve="max",
            most=_MOST_STEPS,
            default="",
        ),
    ] = 0
    laps: Annotated[
        int, setting("number of times the token goes around, on a ring", solve="max", default="")
    ] = 0
    sigma: Annotated[
        float,
        setting(
            "standard deviation of the noise of one contribution",
            solve="min",
            default="",
            local=True,
        ),
    ] = 0.0
    sensitivity: Annotated[
        float,
        setting(
            "largest distance between two contributions of one person", default="1", local=True
        ),
    ] = 0.0
    clip: Annotated[
        float,
        setting(
            "with sgd: the length that gradients are clipped to; two of them are twice that apart",
            default="none",
            local=True,
        ),
    ] = 0.0
    path: Annotated[
        Path,
        setting(
            "whether people learn from whom the token comes and where it goes",
            default="hidden where anyone may be next, else public",
        ),
    ] = "auto"
    published: Annotated[bool, setting("whether everybody is shown the result")] = False
    split_noise: Annotated[
        bool, setting("on a ring: everyone adds a little noise, rather than one in n − 1 all of it")
    ] = False
    cap: Annotated[
        int,
        setting(
            "with a public path: contributions of one person, who adds only noise afterwards",
            default="none",
        ),
    ] = 0
    tokens: Annotated[int, setting("tokens that walk, each for as many steps", least=1)] = 1
    available: Annotated[
        float,
        setting(
            "in a simulation: the chance that a person is there when the token comes, and "
            "otherwise another person is drawn"
        ),
    ] = 1.0
    graph: Contacts = None
    pair: Annotated[
        tuple[int, int] | None,
        # One pair says nothing about the others, so that no offer may be about one alone.
        setting(
            "on a graph: state the guarantee of this person against that one",
            default="all",
            local=True,
        ),
    ] = None
    losses: float | None = None
    """Largest sum of k²/m of any pair on a path that was walked."""
    broken: bool = False
    """Whether some steps of a walk that happened came to nothing."""

    def _resolved(self) -> Mapping[str, Any]:
        people = self._counted()
        never = not 0 < self.available <= 1
        refuse(never, f"available must be above 0 and up to 1, got {self.available!r}")
        self._check_length()
        self._check_together()
        pair = self._checked_pair(people)
        randomizer = self._stated_noise() if self.randomizer is None else self.randomizer
        _check_summable(randomizer, self)
        both = self.sigma and self.randomizer is not None and randomizer != self._stated_noise()
        refuse(both, "sigma and the randomizer both state the noise: give only one")
        for name in ("sensitivity", "clip"):
            alone = getattr(self, name) and not self.sigma
            refuse(alone, f"{name} goes with sigma: the randomizer states its own noise")
        natural = "histogram" if randomizer.uniform_blanket else "sum"
        return {
            "randomizer": randomizer,
            "n": people,
            "pair": pair,
            "contribution": natural if self.contribution == "auto" else self.contribution,
            "path": self.path_known,
            "sensitivity": 0.0 if self.clip or not self.sigma else self.distance,
        }

    def _counted(self) -> int:
        if self.topology == "graph":
            if self.graph is None:
                raise InvalidParameter(
                    "graph must be given: the file that says who can talk to whom, or a family of "
                    "graphs such as regular:8",
                    field="graph",
                )
            checks.instance(self.graph, Graph, "graph", "graphs.ring(10)")
            if self.n not in (0, self.graph.n):
                raise InvalidCrowd(
                    f"{self.names.get('graph', 'the graph')} has {self.graph.n} people, but n = "
                    f"{self.n}: each row of the data is one person of the graph"
                )
            accountant.weights_of(self.graph)
        people = checks.crowd(self.n if self.graph is None else self.graph.n)
        if self.topology == "graph" and people > _MOST_ON_GRAPH:
            raise InvalidCrowd(f"n must be at most {_MOST_ON_GRAPH:,} on a graph", field="n")
        if people < FEWEST:
            raise InvalidCrowd(
                f"n must be at least {FEWEST}: among {people} people the holder of the token "
                "knows who held it before",
                field="n",
            )
        return people

    def _check_length(self) -> None:
        if self.topology == "ring":
            refuse(not self.laps, "laps must be at least 1 on a ring")
            refuse(self.steps, "steps are not for a ring: give laps, each of n steps")
        else:
            refuse(not self.steps, "steps must be at least 1")
            refuse(self.laps, "laps are for a ring: give steps, or topology ring")
        long = self.steps > _MOST_STEPS
        refuse(long, f"steps must be at most {_MOST_STEPS:,}, got {self.steps:,}")
        if self.length > _MOST_STEPS:
            raise InvalidCrowd(
                f"n must be at most {_MOST_STEPS // self.laps:,} for {self.laps:,} laps", field="n"
            )

    def _check_together(self) -> None:
        ring, graph, sgd = (
            self.topology == "ring",
            self.topology == "graph",
            self.contribution == "sgd",
        )
        lone = self.graph is not None and not graph
        refuse(lone, "graph needs topology graph: elsewhere nobody is a neighbour")
        refuse(
            self.path == "hidden" and (ring or graph),
            f"path cannot be hidden on a {self.topology}: who can be next is known there; a hidden "
            "path is proven where the next one is drawn among all people",
        )
        refuse(
            ring and sgd,
            "contribution sgd is not proven on a ring: a step would read contributions that have "
            "no noise yet; use topology complete",
        )
        elsewhere = self.split_noise and not ring
        refuse(elsewhere, "split_noise is for a ring: elsewhere everyone adds all their noise")
        refuse(
            not self.cap and (graph or (sgd and self.path == "public")),
            "cap must be at least 1 here: with a public path, the guarantee of steps and of walks "
            "on a graph rests on how often one person contributes at most",
        )
        refuse(self.cap and ring, "cap is not for a ring: there everyone contributes once a lap")
        refuse(
            self.cap and self.path_known == "hidden",
            "cap needs a public path: counting visits that others cannot see would tell them "
            "apart; set path to public, or leave cap out",
        )
        away = self.available < 1 and self.topology != "complete"
        refuse(away, "available is for topology complete, where another can be drawn")
        refuse(self.clip and not sgd, "clip is for contribution sgd: give sensitivity")
        refuse(
            sgd and self.sigma and not (self.clip or self.sensitivity),
            "clip must be above 0 with contribution sgd: the length that gradients are clipped to",
        )
        both = self.clip and self.sensitivity
        refuse(both, "clip and sensitivity say the same: give only one of them")

    def _checked_pair(self, people: int) -> tuple[int, int] | None:
        if self.pair is None:
            return None
        away = self.topology != "graph"
        refuse(away, "pair is for a graph: elsewhere all pairs are alike or stated")
        named = self.pair if isinstance(self.pair, tuple | list) else ()
        whole = tuple(checks.integer(each, "pair (a person)", 0) for each in named)
        if len(whole) != 2 or whole[0] == whole[1]:
            raise InvalidParameter(
                f"pair must be two different people, got {self.pair!r}", field="pair"
            )
        if max(whole) >= people:
            raise InvalidCrowd(
                f"pair names person {max(whole)}, but people are 0 to {people - 1}", field="pair"
            )
        return whole

    def _stated_noise(self) -> Gaussian:
        if self.contribution == "histogram":
            raise InvalidParameter("randomizer is missing: give a krr randomizer, or sigma")
        refuse(not self.sigma, "sigma must be above 0: it is the noise of one contribution")
        try:
            return Gaussian.with_sigma(self.sigma / self.distance)
        except InvalidParameter as error:
            raise InvalidParameter(
                f"sigma of {self.sigma:g} for contributions that are up to {self.distance:g} "
                f"apart cannot be used: {error}",
                field="sigma",
            ) from error

    @classmethod
    def asks_randomizer(cls, given: Mapping[str, Any]) -> bool:
        """Only histograms do; sums state their noise."""
        return given.get("contribution") == "histogram"

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
        return 2 * self.clip or self.sensitivity or 1.0

    # What is guaranteed.

    @property
    def reads(self) -> bool:
        """Whether contributions read the token, as the steps of a model do."""
        return self.contribution == "sgd"

    @property
    def views(self) -> tuple[str, ...]:
        return (*VIEWS, "peer", "peer+hub")

    @property
    def helpers(self) -> tuple[Address, ...]:
        return (COURIER, CURATOR)

    def guarantee(self, view: str = "peer", colluders: Colluders = 0) -> Guarantee:
        count = check_colluders(colluders, self.n)
        return accountant.token_guarantee(self, view_of(view), count)

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> tuple[Fact, ...]:
        del guarantee, colluders
        noise = getattr(self.randomizer, "sigma", None)
        alone = accountant.contribution(self.randomizer).epsilon(delta)
        expected = min(self.length / self.n, self.cap or math.inf)
        return (
            Fact("path", self.path_known),
            *(() if noise is None else (Fact("sigma_per_unit", noise),)),
            Fact("contribution_epsilon", alone, "up"),
            Fact("contributions_expected", expected * self.tokens),
        )

    def run_diagnostics(self, collected: Collected, delta: float) -> tuple[Fact, ...]:
        del delta
        if not isinstance(collected, Carried):
            return ()
        return Fact("contributions", collected.reports), Fact("steps", collected.steps)

    # What it costs.

    def cost(self) -> Cost:
        turns = self.length * self.tokens
        # Whoever is away is asked in vain.
        asked = turns / self.available
        size = TokenFormat.of(self.randomizer, self.length).nbytes
        return Cost(
            rounds=self.length,
            messages_per_person=asked / self.n,
            bytes_per_person=asked / self.n * size,
            extra_people=1,
            expected_error=self._expected_error(turns),
        )

    def _expected_error(self, turns: int) -> float | None:
        if self.topology != "ring":
            return expected_error(self.randomizer, turns, sampled=True)
        even = np.full(TokenFormat.of(self.randomizer, turns).width, 1.0 * turns)
        even /= even.size if self.randomizer.uniform_blanket else 1
        found = self.randomizer.from_tally(even, turns, self.ring_noise * self.tokens)
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
        return Ring(self.n, self.laps, self.published, self.split_noise)

    # How it is run.

    def bound_to(self, task: Task) -> Self:
        """The same for every task; the steps of a model are no values that could be asked for."""
        del task
        refuse(self.reads, "contribution sgd is trained by TokenSGD: there are no values to add up")
        return self

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self, values, seeds)

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
        if collected.crowd < FEWEST:
            raise ProtocolFailed(
                f"only {collected.crowd} people were there in the end, and so few hide nobody: "
                "give people more time"
            )
        everyone = collected.crowd == self.n
        # Every planned step leaves its noise in what comes home, unless it was lost or never taken;
        # and on a graph whoever is away changes where the token goes.
        elsewhere = self.topology == "graph" and not everyone
        lost = elsewhere or collected.noise < self.length * self.tokens
        people = collected.crowd if self.topology == "complete" else self.n
        whole = everyone and collected.steps == self.length
        losses = collected.losses if whole else None
        return replace(self, n=people, losses=losses, broken=lost and self.topology != "ring")

    def cut_short(self) -> Self:
        """The same walk, with some steps lost or never taken: less noise came home than planned."""
        return replace(self, broken=True)

    def subset(self, people: Sequence[int]) -> Self:
        """A walk among fewer people; as long as before, but on a ring."""
        graph = None if self.graph is None else self.graph.subgraph(np.asarray(people))
        return replace(
            self, n=len(people), graph=graph, names={}, pair=None, losses=None, broken=False
        )

    def duration(self, timing: Timing) -> float:
        from incrowd.protocols.token_walk.roles.relay import walk_seconds

        return walk_seconds(self.length, timing) + super().duration(timing)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        from incrowd.protocols.token_walk.roles.device import make_actor

        return make_actor(self, address, context)


def _check_summable(randomizer: Randomizer, chosen: TokenWalk) -> None:
    """Refuse randomizers whose reports cannot be added up, or whose sums are not accounted for."""
    normal = randomizer.normal_shift is not None
    counted = randomizer.summable and randomizer.uniform_blanket
    if counted or (randomizer.summable and normal):
        refuse(
            chosen.contribution != "auto" and counted != (chosen.contribution == "histogram"),
            f"contribution {chosen.contribution} and the randomizer {randomizer.kind} do not go "
            "together: krr is for a histogram, gaussian for the others",
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
    odd = chosen.split_noise and not normal
    refuse(odd, "split_noise needs gaussian noise: other noise does not add up to itself")
