"""Network shuffling: a crowd that shuffles itself.

Everyone randomizes their answer and seals it to the curator. For a number of rounds every report
moves from whoever holds it to a random neighbour; then everyone hands in what they hold. Nobody has
to be trusted to shuffle: once the walks have mixed, the curator learns no more than behind a
trusted shuffler, on any graph, and before that the promise is stated person by person
(``docs/theory/network_shuffle.md``). From "Network Shuffling: Privacy Amplification via Random
Walks" by Liew, Takahashi, Takagi, Kato, Cao and Yoshikawa, with its theorems replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee, Profile
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.api import (
    Colluders,
    Cost,
    Progress,
    Protocol,
    check_colluders,
    check_randomizer,
    colluding,
)
from incrowd.protocols.capabilities import (
    Attested,
    Coverable,
    Exposable,
    OnGraph,
    Plannable,
    Routed,
    SampleCorrected,
)
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.named_graph import befriended, graph_named
from incrowd.protocols.network_shuffle import accountant, simulate
from incrowd.protocols.network_shuffle.cover import (
    SHARE,
    NetworkCover,
    covered_guarantee,
    plan,
)
from incrowd.protocols.network_shuffle.diagnostics import (
    attendance_summary,
    diagnostics,
    load_summary,
)
from incrowd.protocols.network_shuffle.messages import Absent
from incrowd.protocols.network_shuffle.parameters import NetworkShuffleParameters, Rounds
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Mode, Walked
from incrowd.protocols.network_shuffle.theorems import routes
from incrowd.protocols.network_shuffle.theorems.attendance import Attendance
from incrowd.protocols.network_shuffle.theorems.conditional_on_attendance import (
    attendance_of,
    in_doubt,
    is_bounded,
    with_connections,
)
from incrowd.protocols.network_shuffle.theorems.mixing import Mixing
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import Actor, Address, device
from incrowd.protocols.runtime.context import ActorContext, Connections, Timing
from incrowd.protocols.runtime.cover import COVERED, CellFormat
from incrowd.protocols.runtime.wire import encode
from incrowd.protocols.settings import Parameters
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected
from incrowd.views import view_of

if TYPE_CHECKING:
    from incrowd.privacy.mixed import PeopleProfile

_FAIR = 0.01
"""How far from the common law the walks may be on average for ``single`` to be a fair sample."""


@dataclass(frozen=True, init=False, eq=False)
class NetworkShuffle(
    Protocol, Coverable, OnGraph, Routed, Plannable, Attested, SampleCorrected, Exposable
):
    """Everyone sends one report, which walks over a graph before it is handed in."""

    kind: ClassVar[str] = "network-shuffle"
    parameters_type: ClassVar[type[Parameters]] = NetworkShuffleParameters
    collected_type: ClassVar[type[Collected]] = Walked

    randomizer: Randomizer
    parameters: NetworkShuffleParameters
    walk: Walk | None
    """How reports move; none when only the stationary law of n people is described."""
    lost: int
    """Reports that never arrived, in a run that happened."""
    attendance: Attendance | None
    """Who was there when, in a run that happened; none where the walk says all there is to say."""
    cover: NetworkCover | None
    """The timetable of cells, with cover traffic."""

    def __init__(
        self,
        graph: Graph | Sequence[Graph],
        randomizer: Randomizer,
        *,
        rounds: Rounds = "auto",
        laziness: float = 0.0,
        mode: Mode = "all",
        within: float = 1.05,
        share: float = 1.0,
        stationary: bool = False,
        away: NDArray[np.bool_] | None = None,
        silent: NDArray[np.bool_] | None = None,
    ) -> None:
        """``graph`` may be a sequence, used one per round in turn.

        ``away[r, v]`` says that v keeps what it holds in round r, ``silent[v]`` that v never hands
        in: both are public, and do not depend on anybody's data.
        """
        graphs = tuple(graph) if isinstance(graph, list | tuple) else (graph,)
        for each in graphs:
            checks.instance(each, Graph, "graph", 'graphs.load("friends.npz")')
        tables = (None if each is None else np.asarray(each, bool) for each in (away, silent))
        walk = Walk(graphs, checks.probability(laziness, "laziness"), *tables)
        parameters = NetworkShuffleParameters(
            n=walk.n, rounds=rounds, laziness=laziness, mode=mode, within=within, share=share,
            stationary=stationary,
        )  # fmt: skip
        self._set(parameters, randomizer, walk)

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters; finds the graph that they name unless it is given."""
        if graph is None and not parameters.graph:
            if not parameters.stationary:
                raise InvalidParameter(
                    "graph is missing: name the file that says who can talk to whom or a family "
                    "such as regular:8, or take the walks as perfectly mixed (stationary, with n)",
                    field="graph",
                )
            return cls._of(parameters, randomizer, None)
        if graph is None:
            graph = graph_named(parameters.graph, parameters.n)
        if parameters.n and parameters.n != graph.n:
            named = parameters.graph or "the graph"
            raise InvalidCrowd(
                f"{named} has {graph.n} people, but n = {parameters.n}: each row of the data is "
                "one person of the graph"
            )
        if parameters.peers:
            graph = befriended(graph, parameters.peers)
        counted = msgspec.structs.replace(parameters, n=graph.n)
        return cls._of(counted, randomizer, Walk((graph,), parameters.laziness))

    @classmethod
    def _of(
        cls,
        parameters: NetworkShuffleParameters,
        randomizer: Randomizer,
        walk: Walk | None,
        lost: int = 0,
        cover: NetworkCover | None = None,
        attendance: Attendance | None = None,
    ) -> Self:
        protocol = cls.__new__(cls)
        protocol._set(parameters, randomizer, walk, lost, cover, attendance)
        return protocol

    def _set(
        self,
        parameters: NetworkShuffleParameters,
        randomizer: Randomizer,
        walk: Walk | None,
        lost: int = 0,
        cover: NetworkCover | None = None,
        attendance: Attendance | None = None,
    ) -> None:
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "randomizer", check_randomizer(randomizer))
        object.__setattr__(self, "walk", walk)
        object.__setattr__(self, "lost", lost)
        object.__setattr__(self, "cover", cover)
        object.__setattr__(self, "attendance", attendance)

    def __repr__(self) -> str:
        """The walk and the randomizer, without the graph."""
        p = self.parameters
        return f"NetworkShuffle(n = {p.n}, rounds = {p.rounds}, mode = {p.mode}, {self.randomizer})"

    # Planning.

    def planned(
        self, delta: float, *, colluders: Colluders = 0, progress: Progress | None = None
    ) -> Self:
        """With the rounds chosen, where they are ``auto``, and the walks measured."""
        p = self.parameters
        if p.stationary or self.walk is None:
            return self
        found = self
        if p.rounds == "auto":
            rounds = routes.fewest_rounds(self.walk, partial(self._enough, delta), progress)
            parameters = msgspec.structs.replace(p, rounds=rounds)
            found = self._of(parameters, self.randomizer, self.walk, self.lost, self.cover)
        found.mixing(colluders, progress)
        return found

    def _enough(self, delta: float, mixing: Mixing) -> bool:
        """Whether enough people are close enough to a trusted shuffler of their component."""
        walk, profile = self._described(), self._profile(mixing)
        _, component = walk.together.components()
        sizes = np.bincount(component)[component]
        near = 0
        for size in np.unique(sizes).tolist():
            target = self.parameters.within * blanket_profile(self.randomizer, size).epsilon(delta)
            near += int(np.count_nonzero(profile.deltas(target)[sizes == size] <= delta))
        return bool(near >= self.parameters.share * walk.n)

    @property
    def rounds(self) -> int:
        """How often each report moves; raises while that is still open."""
        if self.parameters.rounds == "auto":
            raise InvalidParameter(
                "rounds are still auto: call planned(delta) to choose them", field="rounds"
            )
        return self.parameters.rounds

    # Accounting.

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """Amplified by the crowd against the curator, with cover against the hub too; else ε0.

        ``colluders`` are the numbers of people who tell the curator what passes through them, or
        how many, or which share of all: those are then drawn at random, by a fixed seed.
        """
        who, p = view_of(view), self.parameters
        count = check_colluders(colluders, p.n)
        if self.doubt and not self._bounded(count):
            return local_guarantee(self.randomizer, 1, who, count)
        if who == COVERED and (overflow := self.overflow) is not None:
            return covered_guarantee(
                self.guarantee("curator", colluders), self.randomizer, overflow
            )
        if who != {"curator"}:
            return local_guarantee(self.randomizer, 1, who, count)
        mixing = self.mixing(colluders)
        profile = self._stationary(count) if mixing is None else self._profile(mixing)
        return accountant.network_guarantee(
            profile,
            self.randomizer,
            assumptions=() if mixing is None else mixing.assumptions,
            coalition=frozenset(colluding(colluders, p.n).tolist()),
            absent=self.walk is not None and not self.walk.present,
            doubtful=self.doubt,
            single=p.mode == "single",
            stationary=p.stationary,
        )

    def guarantee_against_any(self, view: str, colluders: int) -> Guarantee:
        """ε0: those who collude may be all of one's neighbours, and see whose report it is."""
        if not colluders:
            return self.guarantee(view)
        count = check_colluders(colluders, self.parameters.n)
        return local_guarantee(self.randomizer, 1, view_of(view), count)

    @property
    def doubt(self) -> bool:
        """Whether devices were not on to the end, or reports are missing, in what happened."""
        return (self.lost > 0 or self.attendance is not None) and in_doubt(
            self._described(), self.rounds, self.attendance, self.lost
        )

    def _bounded(self, colluders: int) -> bool:
        """Whether a theorem covers what happened to reports that met doubtful devices.

        Not with cover, where nothing is repeated, so that what waits behind others may be late; nor
        with colluders, who may have seen what doubtful devices did.
        """
        alone = self.cover is None and not colluders
        return alone and is_bounded(self._described(), self.rounds, self.attendance)

    def exposures(self, delta: float, colluders: Colluders) -> accountant.Exposures:
        """For each person: the chance that colluders expose them, and the ε otherwise."""
        mixing = self.mixing(colluders)
        if mixing is None or not check_colluders(colluders, self.parameters.n):
            raise InvalidParameter("exposures need a graph and at least one colluder")
        return accountant.exposures(mixing, self.randomizer, delta)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """The curator, the curator together with the hub, and everyone."""
        return tuple(self.guarantee(view) for view in ("curator", "curator+hub", "everyone"))

    def mixing(self, colluders: Colluders = 0, progress: Progress | None = None) -> Mixing | None:
        """How well the walks have hidden each person; none without a graph."""
        if self.walk is None:
            return None
        who = colluding(colluders, self.walk.n)
        if self.parameters.stationary:
            if who.size:
                raise InvalidParameter(
                    "colluders watch the walk, so that it must be described: give rounds instead "
                    "of stationary"
                )
            if not self.walk.steady:
                raise InvalidParameter(
                    "only a walk whose rounds are all alike has a stationary law: give one graph "
                    "and nobody away, or rounds instead of stationary"
                )
            return routes.stationary(self.walk)
        if self.doubt and self.attendance is not None and self._bounded(who.size):
            planned = Walk(self.walk.graphs, self.walk.laziness)
            return routes.mix_doubtful(planned, self.rounds, self.attendance)
        if who.size:
            return routes.mix_colluding(self.walk, self.rounds, who, progress)
        return routes.mix(self.walk, self.rounds, progress)

    def _profile(self, mixing: Mixing) -> PeopleProfile:
        single, walk = self.parameters.mode == "single", self.walk
        kept = self._kept(mixing.rounds) if single and not self.doubt else None
        return accountant.people_profile(
            mixing,
            self.randomizer,
            single=single,
            kept=kept,
            # With people away, reports may change sides, and the crowds cannot be told apart.
            attacked=None if single or self.doubt or walk is None or not walk.present else walk,
            doubtful=self.doubt,
        )

    def _kept(self, rounds: int) -> float | None:
        """How many reports ``single`` is expected to keep once all follow the reference law."""
        walk = self.walk
        if walk is None or not walk.present:
            return None
        # Rounds that are all alike keep the reference.
        law = np.minimum(walk.reference(0 if walk.steady else rounds), 1 - 1e-15)
        return walk.n - float(np.sum(np.exp(walk.n * np.log1p(-law))))

    def _stationary(self, colluders: int) -> Profile:
        if colluders:
            raise InvalidParameter(
                "colluders watch the walk, so that it must be described: give a graph and rounds"
            )
        return blanket_profile(self.randomizer, self.parameters.n)

    # Running.

    def cost(self) -> Cost:
        """Each report moves in every round in which it is not lazy, and is handed in once.

        Reports that move together share a message, and every message but the last is answered.
        """
        from incrowd.protocols.network_shuffle.roles.device import sizes

        p = self.parameters
        hops = self.rounds * (1 - p.laziness)
        hop, answer, hand_in = sizes(self.randomizer.report_bytes)
        return Cost(
            rounds=self.rounds,
            messages_per_person=2 * hops + 1,
            bytes_per_person=hops * (hop + answer) + hand_in,
            expected_error=self._expected_error(),
        )

    def _expected_error(self) -> float | None:
        error = expected_error(self.randomizer, max(1, self.parameters.n - self.lost))
        if error is None or self.parameters.mode == "all" or self.walk is None:
            return error
        dummies = simulate.expected_dummies(self.randomizer, self.walk, self.rounds)
        return error / (1 - dummies.share) if dummies.share < 1 else None

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Walked:
        """Everyone's reports at once, walked and handed in."""
        check_crowd(self, values)
        return simulate.collect(
            self.randomizer, values, self._described(), self.rounds, self.parameters.mode, seeds
        )

    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One person's device, or the curator."""
        from incrowd.protocols.network_shuffle.roles.device import make_actor

        walk, mode = self._described(), self.parameters.mode
        return make_actor(address, context, walk, self.rounds, mode, self.randomizer)

    @property
    def graph(self) -> Graph | None:
        """Who can talk to whom, where one graph serves all rounds."""
        if self.walk is None or len(self.walk.graphs) > 1:
            return None
        return self.walk.graphs[0]

    def attested(self, collected: Collected, connections: Connections, timing: Timing) -> Collected:
        """With what the hub knows: for those who vanished that is all there is."""
        if not isinstance(collected, Walked):
            return collected
        return with_connections(self.rounds, collected, connections, timing)

    @property
    def absence_message(self) -> bytes:
        """Word to the curator that a device will not begin after all."""
        return encode(Absent())

    def published(self) -> NetworkShuffleParameters:
        """Without the name of the graph's file; random peers are part of the graph by now."""
        return msgspec.structs.replace(self.parameters, graph="", peers=0)

    def contacts(self, person: int) -> tuple[Address, ...]:
        """The neighbours on every graph that is used."""
        graphs = self._described().graphs
        near = np.unique(np.concatenate([graph.neighbours(person) for graph in graphs]))
        return tuple(device(other) for other in near.tolist() if other != person)

    def subset(self, people: Sequence[int]) -> Self:
        """On the graphs that remain when everyone else is taken out."""
        walk = self._described()
        kept = np.asarray(people, np.intp)
        if np.array_equal(kept, np.arange(walk.n)):
            return self
        graphs = tuple(graph.subgraph(kept) for graph in walk.graphs)
        parameters = msgspec.structs.replace(self.parameters, n=kept.size)
        return self._of(parameters, self.randomizer, Walk(graphs, walk.laziness))

    def covered(self, delta: float, cells: CellFormat) -> tuple[Self, NetworkCover]:
        """With as many cells as keep the chance of running out of room far below this δ."""
        found, budget = self.planned(checks.delta(delta)), SHARE * delta
        drawn = plan(
            found._described(), found.rounds, self.parameters.mode,
            self.randomizer.report_bytes, cells, budget,
        )  # fmt: skip
        return self._of(found.parameters, self.randomizer, found.walk, found.lost, drawn), drawn

    @cached_property
    def overflow(self) -> float | None:
        """With cover traffic: how probable it is at most that it ever ran out of room."""
        if self.cover is None:
            return None
        walk = self._described()
        return self.cover.overflow if walk is self.cover.walk else self.cover.overflow_on(walk)

    def duration(self, timing: Timing) -> float:
        """As long as the rounds take, and until people have handed in."""
        return super().duration(timing) + Clock.of(self.rounds, timing).hand_in

    def _described(self) -> Walk:
        if self.walk is None or self.parameters.stationary:
            raise InvalidParameter(
                "reports cannot walk for ever: give a graph and rounds instead of stationary"
            )
        return self.walk

    def corrected(self, collected: Collected) -> Collected:
        """With the dummies that are to be expected in what really happened.

        Reports that ``single`` keeps are a fair sample of everyone's only once the walks have
        mixed: before that no unbiased estimate is known.
        """
        if self.parameters.mode == "single" and isinstance(collected, Walked):
            happened = self.conditional_on(collected)
            walk = happened._described()
            mixing = routes.mix(walk, self.rounds)
            if float(mixing.variation.mean()) > _FAIR:
                raise ProtocolFailed(
                    f"after {self.rounds} rounds the walks have not mixed, so that what mode "
                    "single hands in is no fair sample: give more rounds, or mode all"
                )
            dummies = simulate.expected_dummies(self.randomizer, walk, self.rounds)
            collected = replace(collected, dummies=dummies)
        return collected

    def conditional_on(self, collected: Collected) -> Self:
        """The walk that happened: who was away when, who handed in no reports, what was lost."""
        # One release, which the clock ends: nothing seen before can have decided who is in it.
        walk = self._described()
        if collected.received == 0:
            raise ProtocolFailed(
                f"none of the {collected.sent} reports arrived: lower the faults or give people "
                "more time"
            )
        if not isinstance(collected, Walked):
            raise InvalidParameter("network shuffling concludes from what its own runs collected")
        happened = Walk(walk.graphs, walk.laziness, collected.away, collected.silent)
        seen = None
        if collected.attendance is not None:
            seen = attendance_of(self.rounds, len(collected.attendance), collected)
        return self._of(
            self.parameters, self.randomizer, happened, collected.lost, self.cover, seen
        )

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> dict[str, Any]:
        """The keys that ``account`` adds: how people differ, and by which route that is known."""
        return diagnostics(self, delta, guarantee, colluders)

    def run_diagnostics(self, collected: Collected, delta: float) -> dict[str, Any]:
        """The keys that ``run`` adds: load, dummies and losses, and ε by who was on to the end."""
        if not isinstance(collected, Walked):
            return {}
        groups = attendance_summary(self.conditional_on(collected), delta)
        return load_summary(collected, self.parameters.mode) | groups
