"""Network shuffling: a crowd that shuffles itself.

Everyone randomizes their answer and seals it to the curator. For a number of rounds every report
moves from its holder to a random neighbour; then everyone hands in what they hold. No party has
to be trusted to shuffle: once the walks have mixed, the curator learns no more than behind a
trusted shuffler, on any graph, and before that the guarantee is stated person by person
(``docs/theory/network_shuffle.md``). From "Network Shuffling: Privacy Amplification via Random
Walks" by Liew, Takahashi, Takagi, Kato, Cao and Yoshikawa, with its theorems replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.blocks import Fact, facts_from
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee, Profile
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols import capabilities
from incrowd.protocols.api import Colluders, Cost, Progress, Protocol, check_colluders, colluding
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.named_graph import Contacts, CountedCrowd
from incrowd.protocols.network_shuffle import accountant, simulate
from incrowd.protocols.network_shuffle import diagnostics as told
from incrowd.protocols.network_shuffle.cover import SHARE, NetworkCover, covered_guarantee, plan
from incrowd.protocols.network_shuffle.messages import Absent
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Handing, Walked
from incrowd.protocols.network_shuffle.theorems import conditional_on_attendance as realised
from incrowd.protocols.network_shuffle.theorems import routes
from incrowd.protocols.network_shuffle.theorems.attendance import Attendance
from incrowd.protocols.network_shuffle.theorems.mixing import Mixing
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address, device, person_of
from incrowd.protocols.runtime.context import ActorContext, Connections, Timing
from incrowd.protocols.runtime.cover import COVERED, CellFormat
from incrowd.protocols.runtime.wire import ReportFormat, encode
from incrowd.protocols.settings import setting
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected
from incrowd.views import view_of

if TYPE_CHECKING:
    from incrowd.privacy.mixed import PeopleProfile

_FAIR = 0.01
"""How far from the common law the walks may be on average for ``single`` to be a fair sample."""


@dataclass(frozen=True, eq=False, repr=False)
class NetworkShuffle(
    Protocol,
    capabilities.Coverable,
    capabilities.OnGraph,
    capabilities.Routed,
    capabilities.Plannable,
    capabilities.Attested,
    capabilities.SampleCorrected,
    capabilities.Exposable,
    capabilities.RunDiagnostics,
):
    """Everyone sends one report, which walks over a graph before it is handed in.

    ``graph`` may be a sequence, used one per round in turn. ``away[r, v]`` says that v keeps what
    it holds in round r, ``silent[v]`` that v never hands in: both are public, and do not depend on
    anybody's data.
    """

    kind: ClassVar[str] = "network-shuffle"
    collected_type: ClassVar[type[Collected]] = Walked

    _: KW_ONLY
    n: CountedCrowd = 0
    graph: Contacts = None
    rounds: Annotated[
        int | Literal["auto"],
        setting(
            "times that each report moves on; auto: the fewest that come within a factor of the "
            "trusted shuffler",
            solve="min",
        ),
    ] = "auto"
    laziness: Annotated[
        float,
        setting("chance that a report stays where it is in a round", check=checks.probability),
    ] = 0.0
    hand_in: Annotated[
        Handing,
        setting("hand in all reports held at the end, or a single one, or a dummy when none"),
    ] = "all"
    random_peers: Annotated[
        int,
        setting(
            "random others whom everyone knows besides their neighbours in the graph", local=True
        ),
    ] = 0
    target_ratio: Annotated[
        float, setting("with rounds = auto: the factor of the trusted shuffler's ε to come to")
    ] = 1.05
    target_quantile: Annotated[
        float,
        setting(
            "with rounds = auto: the share of people for whom that must hold",
            check=checks.probability,
        ),
    ] = 1.0
    stationary: Annotated[
        bool, setting("take the walks as perfectly mixed, as after endless rounds")
    ] = False
    away: NDArray[np.bool_] | None = None
    silent: NDArray[np.bool_] | None = None
    walk: Walk | None = None
    """Way of the reports; none when only the stationary law of n people is described."""
    lost: int = 0
    """Reports that never arrived, in a run that happened."""
    attendance: Attendance | None = None
    """Record of attendance in a run that happened; none where the walk says all there is to say."""
    cover: NetworkCover | None = None
    """Timetable of cells, with cover traffic."""

    def _resolved(self) -> Mapping[str, Any]:
        if self.laziness == 1:
            still = "laziness must be below 1: nothing would ever move"
            raise InvalidParameter(still, field="laziness")
        if self.target_ratio <= 1:
            small = f"target_ratio must be a factor above 1, got {self.target_ratio!r}"
            raise InvalidParameter(small, field="target_ratio")
        if self.target_quantile == 0:
            raise InvalidParameter(
                f"target_quantile must be above 0, got {self.target_quantile!r}",
                field="target_quantile",
            )
        walk = self._described_walk()
        if walk is None:
            return {"n": checks.crowd(self.n)}
        if self.n not in (0, walk.n):
            named = self.names.get("graph", "the graph")
            raise InvalidCrowd(
                f"{named} has {walk.n} people, but n = {self.n}: each row of the data is one "
                "person of the graph"
            )
        one = walk.graphs[0] if len(walk.graphs) == 1 else None
        return {"n": walk.n, "walk": walk, "graph": one}

    def _described_walk(self) -> Walk | None:
        walk = self.walk
        if walk is not None and self.graph in (None, walk.graphs[0]):
            if walk.laziness == self.laziness:
                return walk
            return replace(walk, laziness=self.laziness)
        graphs: Any = self.graph if isinstance(self.graph, list | tuple) else (self.graph,)
        if graphs == (None,):
            if self.stationary:
                return None
            raise InvalidParameter(
                "graph is missing: name the file that says who can talk to whom or a family "
                "such as regular:8, or take the walks as perfectly mixed (stationary, with n)",
                field="graph",
            )
        for each in graphs:
            checks.instance(each, Graph, "graph", 'graphs.load("friends.npz")')
        given = self.away, self.silent
        tables = (None if each is None else np.asarray(each, bool) for each in given)
        return Walk(tuple(graphs), self.laziness, *tables)

    def __repr__(self) -> str:
        rest = f"hand_in = {self.hand_in}, {self.randomizer}"
        return f"NetworkShuffle(n = {self.n}, rounds = {self.rounds}, {rest})"

    # Planning.

    def planned(
        self, delta: float, *, colluders: Colluders = 0, progress: Progress | None = None
    ) -> Self:
        if self.stationary or self.walk is None:
            return self
        found = self
        if self.rounds == "auto":
            rounds = routes.fewest_rounds(self.walk, partial(self._enough, delta), progress)
            found = replace(self, rounds=rounds, attendance=None)
        found.mixing(colluders, progress)
        return found

    def _enough(self, delta: float, mixing: Mixing) -> bool:
        """Whether enough people are close enough to a trusted shuffler of their component."""
        walk, profile = self._described(), self._profile(mixing)
        _, component = walk.together.components()
        sizes = np.bincount(component)[component]
        near = 0
        for size in np.unique(sizes).tolist():
            target = self.target_ratio * blanket_profile(self.randomizer, size).epsilon(delta)
            near += int(np.count_nonzero(profile.deltas(target)[sizes == size] <= delta))
        return bool(near >= self.target_quantile * walk.n)

    @property
    def planned_rounds(self) -> int:
        """Times that each report moves; raises while that is still open."""
        if self.rounds == "auto":
            still = "rounds are still auto: call planned(delta) to choose them"
            raise InvalidParameter(still, field="rounds")
        return self.rounds

    # Accounting.

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """Amplified by the crowd against the curator, with cover against the hub too; else ε0.

        ``colluders`` are the numbers of people who tell the curator what passes through them, or
        how many, or which share of all: those are then drawn at random, by a fixed seed.
        """
        who, count = view_of(view), check_colluders(colluders, self.n)
        lost = self.doubt and not self._bounded(count)
        if not lost and who == COVERED and (overflow := self.overflow) is not None:
            alone = self.guarantee("curator", colluders)
            return covered_guarantee(alone, self.randomizer, overflow)
        if lost or who != {"curator"}:
            return local_guarantee(self.randomizer, 1, who, count)
        mixing = self.mixing(colluders)
        profile = self._stationary(count) if mixing is None else self._profile(mixing)
        return accountant.network_guarantee(
            profile,
            self.randomizer,
            assumptions=() if mixing is None else mixing.assumptions,
            coalition=frozenset(colluding(colluders, self.n).tolist()),
            absent=self.walk is not None and not self.walk.present,
            doubtful=self.doubt,
            single=self.hand_in == "single",
            stationary=self.stationary,
        )

    def guarantee_against_any(self, view: str, colluders: int) -> Guarantee:
        """ε0: those who collude may be all of one's neighbours, and see whose report it is."""
        if not colluders:
            return self.guarantee(view)
        count = check_colluders(colluders, self.n)
        return local_guarantee(self.randomizer, 1, view_of(view), count)

    @property
    def doubt(self) -> bool:
        """Whether devices were not on to the end, or reports are missing, in what happened."""
        return (self.lost > 0 or self.attendance is not None) and realised.in_doubt(
            self._described(), self.planned_rounds, self.attendance, self.lost
        )

    def _bounded(self, colluders: int) -> bool:
        """Whether a theorem covers what happened to reports that met doubtful devices.

        Not with cover, where nothing is repeated, so that what waits behind others may be late; nor
        with colluders, who may have seen what doubtful devices did.
        """
        if self.cover is not None or colluders:
            return False
        return realised.is_bounded(self._described(), self.planned_rounds, self.attendance)

    def exposures(self, delta: float, colluders: Colluders) -> accountant.Exposures:
        """Chance that colluders expose each person, and the ε otherwise."""
        mixing = self.mixing(colluders)
        if mixing is None or not check_colluders(colluders, self.n):
            raise InvalidParameter("exposures need a graph and at least one colluder")
        return accountant.exposures(mixing, self.randomizer, delta)

    def mixing(self, colluders: Colluders = 0, progress: Progress | None = None) -> Mixing | None:
        """How well the walks have hidden each person; none without a graph."""
        if self.walk is None:
            return None
        who = colluding(colluders, self.walk.n)
        if self.stationary:
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
            return routes.mix_doubtful(planned, self.planned_rounds, self.attendance)
        if who.size:
            return routes.mix_colluding(self.walk, self.planned_rounds, who, progress)
        return routes.mix(self.walk, self.planned_rounds, progress)

    def _profile(self, mixing: Mixing) -> PeopleProfile:
        single, walk = self.hand_in == "single", self.walk
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
        return blanket_profile(self.randomizer, self.n)

    # Running.

    def cost(self) -> Cost:
        """Each report moves in every round in which it is not lazy, and is handed in once.

        Reports that move together share a message, and every message but the last is answered.
        """
        from incrowd.protocols.network_shuffle.roles.device import sizes

        hops = self.planned_rounds * (1 - self.laziness)
        hop, answer, hand_in = sizes(self.randomizer.report_bytes)
        return Cost(
            rounds=self.planned_rounds,
            messages_per_person=2 * hops + 1,
            bytes_per_person=hops * (hop + answer) + hand_in,
            expected_error=self._expected_error(),
        )

    def _expected_error(self) -> float | None:
        error = expected_error(self.randomizer, max(1, self.n - self.lost))
        if error is None or self.hand_in == "all" or self.walk is None:
            return error
        dummies = simulate.expected_dummies(self.randomizer, self.walk, self.planned_rounds)
        return error / (1 - dummies.share) if dummies.share < 1 else None

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Walked:
        check_crowd(self, values)
        return simulate.collect(
            self.randomizer, values, self._described(), self.planned_rounds, self.hand_in, seeds
        )

    def actor(self, address: Address, context: ActorContext) -> Actor:
        from incrowd.protocols.network_shuffle.roles.curator import Curator
        from incrowd.protocols.network_shuffle.roles.device import Device

        walk, rounds = self._described(), self.planned_rounds
        drawn, hand_in = self.randomizer, self.hand_in
        if not walk.present:
            raise InvalidParameter(
                "who is away is decided by the run itself when devices are played: leave away and "
                "silent out"
            )
        if address != CURATOR:
            return Device(context, person_of(address), drawn, walk, rounds, hand_in)
        dummies = simulate.expected_dummies(drawn, walk, rounds) if hand_in == "single" else None
        return Curator(context, walk.n, ReportFormat.of(drawn), rounds, hand_in, dummies)

    def attested(self, collected: Collected, connections: Connections, timing: Timing) -> Collected:
        if not isinstance(collected, Walked):
            return collected
        return realised.with_connections(self.planned_rounds, collected, connections, timing)

    @property
    def absence_message(self) -> bytes:
        return encode(Absent())

    def contacts(self, person: int) -> tuple[Address, ...]:
        graphs = self._described().graphs
        near = np.unique(np.concatenate([graph.neighbours(person) for graph in graphs]))
        return tuple(device(other) for other in near.tolist() if other != person)

    def subset(self, people: Sequence[int]) -> Self:
        walk = self._described()
        kept = np.asarray(people, np.intp)
        if np.array_equal(kept, np.arange(walk.n)):
            return self
        graphs = tuple(graph.subgraph(kept) for graph in walk.graphs)
        alone = replace(self, lost=0, attendance=None, cover=None)
        return replace(alone, n=kept.size, graph=None, walk=Walk(graphs, walk.laziness))

    def covered(self, delta: float, cells: CellFormat) -> Self:
        found, budget = self.planned(checks.delta(delta)), SHARE * delta
        walk, rounds, size = found._described(), found.planned_rounds, self.randomizer.report_bytes
        drawn = plan(walk, rounds, self.hand_in, size, cells, budget)
        return replace(found, cover=drawn, attendance=None)

    @cached_property
    def overflow(self) -> float | None:
        """With cover traffic: how probable it is at most that it ever ran out of room."""
        if self.cover is None:
            return None
        walk = self._described()
        return self.cover.overflow if walk is self.cover.walk else self.cover.overflow_on(walk)

    def duration(self, timing: Timing) -> float:
        return super().duration(timing) + Clock.of(self.planned_rounds, timing).hand_in

    def _described(self) -> Walk:
        if self.walk is None or self.stationary:
            raise InvalidParameter(
                "reports cannot walk for ever: give a graph and rounds instead of stationary"
            )
        return self.walk

    def corrected(self, collected: Collected) -> Collected:
        """With the dummies that are to be expected in what really happened.

        Reports that ``single`` keeps are a fair sample of everyone's only once the walks have
        mixed: before that no unbiased estimate is known.
        """
        if self.hand_in == "single" and isinstance(collected, Walked):
            happened = self.conditional_on(collected)
            walk = happened._described()
            mixing = routes.mix(walk, self.planned_rounds)
            if float(mixing.variation.mean()) > _FAIR:
                raise ProtocolFailed(
                    f"after {self.rounds} rounds the walks have not mixed, so that what is "
                    "handed in is no fair sample: give more rounds, or hand_in all"
                )
            dummies = simulate.expected_dummies(self.randomizer, walk, self.planned_rounds)
            collected = replace(collected, dummies=dummies)
        return collected

    def conditional_on(self, collected: Collected) -> Self:
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
            seen = realised.attendance_of(self.planned_rounds, len(collected.attendance), collected)
        return replace(self, walk=happened, lost=collected.lost, attendance=seen)

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> tuple[Fact, ...]:
        found = told.diagnostics(self, delta, guarantee, colluders)
        return facts_from(found, told.UPPER, told.UNITS)

    def run_diagnostics(self, collected: Collected, delta: float) -> tuple[Fact, ...]:
        if not isinstance(collected, Walked):
            return ()
        groups = told.attendance_summary(self.conditional_on(collected), delta)
        return facts_from(told.load_summary(collected, self.hand_in) | groups, told.UPPER)
