"""Scrambled queries: an SQL aggregate between devices, hidden from whoever watches them talk.

Every compute node answers for some cells of a grouping set, so that to whom a tuple is sent says
what is in it. A tuple therefore goes through a scrambler, which mixes it with those of others and
with dummies; and now and then a person sends an empty message to a compute node drawn at random.
What an observer of all traffic can learn is then differentially private
(``docs/theory/scrambler.md``). Compute nodes read the tuples of their own cells in the clear. From
"Mitigating Leakage from Data Dependent Communications in Decentralized Computing using Differential
Privacy" by Ladjel, Anciaux, Bellet and Scerri, with its theorems replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import msgspec
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter, NotProven, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Cost, Protocol, check_colluders, check_randomizer
from incrowd.protocols.capabilities import Drawable, Drawing, Routed, TaskBound, Tunable
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.scrambled_query.parameters import Answers, Mode, ScramblerParameters
from incrowd.protocols.scrambled_query.release import check_release
from incrowd.protocols.scrambled_query.tuning import Limits, fit
from incrowd.protocols.settings import Parameters
from incrowd.randomizers import Redirect
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, Task
from incrowd.tasks.query import Query, Tabulated
from incrowd.views import view_of

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.plan.model import Plan
    from incrowd.protocols.scrambled_query.theorems.mechanisms import Routing


@dataclass(frozen=True, init=False, eq=False)
class ScrambledQuery(Protocol, Tunable, Routed, TaskBound, Drawable):
    """Tuples on their way to compute nodes, through scramblers and among dummies."""

    kind: ClassVar[str] = "scrambler"
    parameters_type: ClassVar[type[Parameters]] = ScramblerParameters
    collected_type: ClassVar[type[Collected]] = Tabulated
    limits_type: ClassVar[type[msgspec.Struct]] = Limits

    randomizer: Randomizer
    parameters: ScramblerParameters
    query: Query | None
    """What is asked; none where only a promise is."""

    def __init__(
        self,
        *,
        targets: int,
        sampling: float = 0.0,
        sources: int = 0,
        dummies: int = 0,
        n: int = 0,
        mode: Mode = "scrambler",
        grouping_sets: int = 1,
        answers: Answers = "all",
        release: float = 0.0,
        spares: int = 0,
        query: Query | None = None,
    ) -> None:
        parameters = ScramblerParameters(
            n=n, targets=targets, sampling=sampling, sources=sources, dummies=dummies, mode=mode,
            grouping_sets=grouping_sets, answers=answers, release=release, spares=spares,
        )  # fmt: skip
        self._set(parameters, self.implied(parameters))
        if query is not None:
            self._ask(query)

    def _set(self, parameters: ScramblerParameters, randomizer: Randomizer) -> None:
        _check_sources(parameters)
        check_randomizer(randomizer)
        if randomizer.domain == "target":
            if randomizer != self.implied(parameters):
                raise InvalidParameter(
                    "sampling and the randomizer both say how often people lie", field="sampling"
                )
        elif parameters.grouping_sets > 1:
            raise InvalidParameter(
                "grouping_sets must be 1 with a randomizer other than sampling",
                field="grouping_sets",
            )
        elif parameters.sampling or parameters.mode != "scrambler":
            raise InvalidParameter(
                "randomizer is for mode scrambler without sampling, which says the same: its "
                "reports are mixed with dummies of its own blanket"
            )
        object.__setattr__(self, "randomizer", randomizer)
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "query", None)

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters; there is no graph."""
        del graph
        made = cls.__new__(cls)
        made._set(parameters, randomizer)
        return made

    @classmethod
    def implied(cls, parameters: ScramblerParameters) -> Redirect:
        """The lies that the parameters speak of."""
        _check_sources(parameters)
        if not parameters.targets:
            raise InvalidParameter(
                "targets must be at least 1: a query needs compute nodes", field="targets"
            )
        return Redirect(targets=parameters.targets, sampling=parameters.sampling)

    @classmethod
    def asks_epsilon0(cls, given: Mapping[str, Any]) -> bool:
        """Lies state their own."""
        del given
        return False

    def bound_to(self, task: Task) -> Self:
        """The protocol for one query, which says how many grouping sets there are."""
        same = self._with()
        same._ask(_as_query(task))
        return same

    def _ask(self, query: Query) -> None:
        if self.randomizer.domain != "target":
            raise InvalidParameter("randomizer cannot send tuples: give sampling instead")
        if self.parameters.release:
            check_release(query)
        query.check_sums(self.parameters.people)
        sets = len(query.sets)
        object.__setattr__(
            self, "parameters", msgspec.structs.replace(self.parameters, grouping_sets=sets)
        )
        object.__setattr__(self, "query", query)

    @classmethod
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
        """Lies, groups and dummies for the budget, unless some of them are given."""
        if "grouping_sets" in given:
            raise InvalidParameter(
                "grouping_sets follow from the query: leave the key out", field="grouping_sets"
            )
        travel = {name: given[name] for name in ("sampling", "sources", "dummies") if name in given}
        if len(travel) == 3 or given.get("mode", "scrambler") != "scrambler":
            if limits != Limits():
                raise InvalidParameter(
                    "limits are for choosing sampling, sources or dummies, with mode scrambler: "
                    "leave one of these out, or the limits"
                )
            return {}
        query = _as_query(task)
        found = fit(
            [min(given.get("targets", 1), each.cells) for each in query.sets],
            people,
            epsilon=epsilon,
            delta=delta,
            limits=limits,
            answers=given.get("answers", "all"),
            release=given.get("release", 0.0) if "curator" in view_of(view) else 0.0,
            **travel,
        )
        chosen = {
            "sampling": found.sampling,
            "sources": found.sources,
            "dummies": found.dummies,
        }
        return {name: value for name, value in chosen.items() if name not in travel}

    @property
    def asked(self) -> Query:
        """The query; refuses where there is none."""
        if self.query is None:
            raise InvalidParameter("there is no query: pass a Query as the task")
        return self.query

    # How messages are routed.

    @property
    def targets(self) -> tuple[int, ...]:
        """The compute nodes of each grouping set: no more than it has cells."""
        chosen = self.parameters
        if self.query is None:
            return (chosen.targets,) * chosen.grouping_sets
        return tuple(min(chosen.targets, each.cells) for each in self.query.sets)

    def redirect(self, index: int) -> Redirect:
        """How people lie about the target of one grouping set."""
        return Redirect(targets=self.targets[index], sampling=self.parameters.sampling)

    @cached_property
    def routings(self) -> tuple[Routing, ...]:
        """What hides where messages go, for each grouping set."""
        from incrowd.protocols.scrambled_query.theorems.mechanisms import (
            CappedScrambler,
            Flooding,
            Scrambler,
            SomeScrambler,
        )

        chosen = self.parameters
        if self.randomizer.domain != "target":
            one = SomeScrambler(self.randomizer, chosen.sources, chosen.dummies)
            return (one,) * chosen.grouping_sets
        found: list[Routing] = []
        for targets in self.targets:
            if chosen.mode == "local":
                found.append(Flooding(targets, chosen.sampling, min(chosen.dummies, targets - 1)))
            else:
                kind = CappedScrambler if chosen.mode == "capped" else Scrambler
                found.append(kind(targets, chosen.sampling, *self._mixed))
        return tuple(found)

    @property
    def _mixed(self) -> tuple[int, int]:
        """People in the fullest group, and the dummies beside them.

        Whom a group misses is replaced by a dummy. What a cap does is only proven for full groups.
        """
        chosen = self.parameters
        if chosen.mode == "capped":
            return chosen.sources, chosen.dummies
        sets = chosen.grouping_sets if chosen.answers == "one" else 1
        fullest = -(-chosen.people // (chosen.groups * sets))
        return fullest, chosen.dummies + chosen.sources - fullest

    @cached_property
    def plan(self) -> Plan:
        """The nodes and clusters of the whole query, from which its privacy follows."""
        from incrowd.protocols.scrambled_query.plan.model import aggregate

        chosen = self.parameters
        return aggregate(
            self.routings, chosen.people, answers=chosen.answers, release=chosen.release
        )

    def drawing(self) -> Drawing:
        """The plan."""
        plan = self.plan
        return Drawing(plan.svg(), plan.text(), tuple(plan.explain()))

    # What is promised.

    def guarantee(self, view: str = "network", colluders: Colluders = 0) -> Guarantee:
        """Against whoever watches the network; see :mod:`.accountant`."""
        from incrowd.protocols.scrambled_query.accountant import query_guarantee

        count = check_colluders(colluders, self.parameters.people)
        return query_guarantee(self, view_of(view), count)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Whoever watches, with the scramblers, and whoever is given the result, where proven."""
        found = []
        for view in ("network", "network+scrambler", "curator", "curator+network"):
            try:
                found.append(self.guarantee(view))
            except NotProven:
                continue
        return tuple(found)

    @property
    def views(self) -> tuple[str, ...]:
        """An observer; and whoever is shown the result, where it has noise."""
        shown = ("curator", "curator+network") if self.parameters.release else ()
        return ("network", *shown)

    # How it is run.

    @property
    def helpers(self) -> tuple[Address, ...]:
        """Scramblers and those that stand by, compute nodes, and the curator."""
        from incrowd.protocols.scrambled_query import topology

        return (*topology.helpers(self), CURATOR)

    def contacts(self, person: int) -> tuple[Address, ...]:
        """The scramblers that mix a person's messages, or the compute nodes."""
        from incrowd.protocols.scrambled_query import topology

        return topology.contacts(self, person)

    def default_task(self) -> Task:
        """The query that the protocol was made for."""
        return self.asked

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """All tuples at once, in memory."""
        from incrowd.protocols.scrambled_query.simulate import collect

        check_crowd(self, values)
        return collect(self, values, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One person's device, a scrambler, a compute node, or the curator."""
        from incrowd.protocols.scrambled_query.roles.source import make_actor

        return make_actor(self, address, context)

    def duration(self, timing: Timing) -> float:
        """Until the compute nodes have stopped waiting for the last scrambler."""
        from incrowd.protocols.scrambled_query.topology import deadlines

        return deadlines(timing).result

    def conditional_on(self, collected: Collected) -> Self:
        """As many messages as the scramblers really sent.

        That is as planned, whoever was absent: each of them is replaced by a dummy, which hides the
        others no less. A scrambler that sent nothing told nothing. There is one release, so that no
        earlier one can have decided who is there.
        """
        chosen = self.parameters
        if not isinstance(collected, Tabulated) or not collected.received:
            raise ProtocolFailed("nobody's message came through: give people more time")
        # What a silent compute node got is not known, but it was sent as planned.
        if chosen.mode == "local" or any(map(len, collected.lost)):
            return self
        sent = [row.sum() for each in collected.traffic for row in each if each.shape[1] > 1]
        fewest = min((int(each) for each in sent if each), default=chosen.sources + chosen.dummies)
        return self._with(dummies=min(chosen.dummies, max(0, fewest - chosen.sources)))

    def subset(self, people: Sequence[int]) -> Self:
        """A query among fewer people; dummies take the place of those that a scrambler misses."""
        chosen = self.parameters
        missing = max(0, chosen.sources - len(people))
        return self._with(
            n=len(people), sources=chosen.sources - missing, dummies=chosen.dummies + missing
        )

    def _with(self, **changes: Any) -> Self:
        same = self.make(msgspec.structs.replace(self.parameters, **changes), self.randomizer)
        if self.query is not None:
            same._ask(self.query)
        return same

    def cost(self) -> Cost:
        """What one person sends, and who must help besides."""
        from incrowd.protocols.scrambled_query.cost import cost_of

        return cost_of(self)

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> dict[str, Any]:
        """What a message reveals alone, how many tuples arrive, the load, and older bounds."""
        from incrowd.protocols.scrambled_query.accountant import compared

        del guarantee, colluders
        return compared(self, delta) | {"unprotected": self.unprotected}

    def run_diagnostics(self, collected: Collected, delta: float) -> dict[str, Any]:
        """How many tuples stand behind the answer."""
        del delta
        from incrowd.protocols.scrambled_query.cost import Load

        if not isinstance(collected, Tabulated):
            return {}
        return {
            # With noise in the result nobody knows how many there are.
            "tuples": None if any(collected.noise) else list(collected.crowds),
            "absent": [self.parameters.people - each for each in collected.present],
            **Load.of(self).described(),
            "unprotected": self.unprotected,
        }

    @property
    def unprotected(self) -> str:
        """Against whom nothing is promised, and why."""
        told = "nothing is promised against compute nodes, which read tuples in the clear"
        if not self.parameters.release:
            told += ", nor against the curator, who gets the answer as it is"
        return told


def _as_query(task: Task) -> Query:
    """The task, which must say where people's tuples go."""
    if getattr(task, "domain", None) != "target":
        raise InvalidParameter(
            f"task must be a Query such as Query(sql=…, columns=…), got {task!r}"
        )
    return cast(Query, task)


def _check_sources(parameters: ScramblerParameters) -> None:
    if parameters.mode != "local" and not parameters.sources:
        raise InvalidParameter(
            "sources must be at least 1: a scrambler mixes messages", field="sources"
        )
