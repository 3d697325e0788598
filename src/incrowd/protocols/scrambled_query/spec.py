"""Scrambled queries: an SQL aggregate between devices, hidden from an observer of the network.

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
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import msgspec
from numpy.typing import NDArray

from incrowd import checks
from incrowd.blocks import Fact, facts_from
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Cost, Protocol, check_colluders
from incrowd.protocols.capabilities import (
    Drawable,
    Drawing,
    NoiseStated,
    Routed,
    RunDiagnostics,
    TaskBound,
    Tunable,
)
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.scrambled_query import accountant, simulate, topology
from incrowd.protocols.scrambled_query.cost import Load, cost_of
from incrowd.protocols.scrambled_query.plan.model import Answers, Plan, aggregate
from incrowd.protocols.scrambled_query.release import check_release
from incrowd.protocols.scrambled_query.roles.source import make_actor
from incrowd.protocols.scrambled_query.theorems import mechanisms
from incrowd.protocols.scrambled_query.tuning import Limits, fit
from incrowd.protocols.settings import crowd_or_open, refuse, setting
from incrowd.randomizers import Redirect
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, Task
from incrowd.tasks.query import Query, Tabulated
from incrowd.views import view_of

Hiding = Literal["scrambler", "capped", "local"]
"""Who hides where a message goes: a scrambler, one that caps each target, or its sender alone."""

_MOST = 10_000_000
_MOST_SETS = 1000
_UPPER = ("local_epsilon", "hoeffding_epsilon", "bennett_epsilon")
"""Diagnostics that bound something from above."""


def _chance(value: float, name: str) -> float:
    outside = not 0 <= checks.number(value, name) <= 1
    refuse(outside, f"{name} must be between 0 and 1, got {value!r}")
    return value


@dataclass(frozen=True, eq=False)
class ScrambledQuery(Protocol, Tunable, Routed, TaskBound, Drawable, NoiseStated, RunDiagnostics):
    """Tuples on their way to compute nodes, through scramblers and among dummies."""

    kind: ClassVar[str] = "scrambled-query"
    collected_type: ClassVar[type[Collected]] = Tabulated
    limits_type: ClassVar[type[msgspec.Struct]] = Limits
    noise: ClassVar[str] = "redirect_probability"
    noise_words: ClassVar[str] = "this choice of redirect_probability, sources and dummies"
    noise_advice: ClassVar[str] = (
        "raise redirect_probability or dummies, or leave all three out to have them chosen"
    )

    randomizer: Randomizer = None  # type: ignore[assignment]  # resolved from the field below
    _: KW_ONLY
    n: Annotated[
        int,
        setting(
            "people who have a tuple",
            check=crowd_or_open,
            default="as many as one scrambler takes",
        ),
    ] = 0
    targets: Annotated[
        int, setting("compute nodes that share the cells of each grouping set", default="")
    ] = 0
    redirect_probability: Annotated[
        float,
        setting(
            "chance that a message goes to a compute node drawn at random, without its tuple",
            solve="min",
            check=_chance,
            most=1.0,
        ),
    ] = 0.0
    sources: Annotated[
        int,
        setting("people whose messages one scrambler mixes", solve="min", most=_MOST, default=""),
    ] = 0
    dummies: Annotated[
        int,
        setting(
            "messages without a tuple that a scrambler adds; with hiding local, that everyone adds",
            solve="min",
            most=_MOST,
        ),
    ] = 0
    hiding: Annotated[
        Hiding,
        setting(
            "scramblers, scramblers that cap what one compute node gets, or none: everyone adds "
            "their own dummies"
        ),
    ] = "scrambler"
    grouping_sets: Annotated[int, setting("grouping sets that a tuple goes to", least=1)] = 1
    sets_per_person: Annotated[
        Answers,
        setting("whether everyone answers all grouping sets, or one that is drawn for them"),
    ] = "all"
    release_epsilon: Annotated[
        float,
        setting(
            "the ε of noise in the result, per person; without noise its recipient is trusted",
            default="none",
        ),
    ] = 0.0
    standby_scramblers: Annotated[int, setting("scramblers that stand by for those that die")] = 0
    query: Query | None = None
    """The question; none where only a guarantee is asked for."""

    def _resolved(self) -> Mapping[str, Any]:
        for name in ("targets", "sources", "dummies", "grouping_sets", "standby_scramblers"):
            whole, most = getattr(self, name), _MOST_SETS if name == "grouping_sets" else _MOST
            refuse(whole > most, f"{name} must be at most {most:,}, got {whole:,}")
        if self.n:
            checks.crowd(self.n)
        self._check_together()
        randomizer = self._redirected() if self.randomizer is None else self.randomizer
        self._check_randomizer(randomizer)
        if self.query is None:
            return {"randomizer": randomizer}
        query = _as_query(self.query)
        if randomizer.domain != "target":
            raise InvalidParameter(
                "randomizer cannot send tuples: give redirect_probability instead"
            )
        if self.release_epsilon:
            check_release(query)
        query.check_sums(self.people)
        return {"randomizer": randomizer, "grouping_sets": len(query.sets)}

    def _check_together(self) -> None:
        if self.hiding == "local":
            for name in ("sources", "standby_scramblers"):
                there = getattr(self, name)
                refuse(there, f"{name} are for scramblers: with hiding local there are none")
            refuse(
                self.targets and self.dummies >= max(2, self.targets),
                f"dummies must be at most targets − 1 = {self.targets - 1} with hiding local: each "
                "goes to a compute node of its own",
            )
            return
        refuse(not self.sources, "sources must be at least 1: a scrambler mixes messages")
        _check_enough(self.n, self.sources)

    def _redirected(self) -> Redirect:
        refuse(not self.targets, "targets must be at least 1: a query needs compute nodes")
        return Redirect(targets=self.targets, redirect_probability=self.redirect_probability)

    def _check_randomizer(self, randomizer: Randomizer) -> None:
        if randomizer.domain == "target":
            twice = randomizer != self._redirected()
            refuse(twice, "redirect_probability and the randomizer both say how often people lie")
            return
        several = self.grouping_sets > 1
        refuse(several, "grouping_sets must be 1 with a randomizer other than redirect")
        if self.redirect_probability or self.hiding != "scrambler":
            raise InvalidParameter(
                "randomizer is for hiding scrambler without redirect_probability, which says the "
                "same: its reports are mixed with dummies of its own blanket"
            )

    @classmethod
    def asks_randomizer(cls, given: Mapping[str, Any]) -> bool:
        """Never: redirected messages state their own."""
        del given
        return False

    @property
    def people(self) -> int:
        """How many people have a tuple."""
        return self.n or self.sources or 1

    @property
    def groups(self) -> int:
        """How many scramblers it takes for one grouping set; none with hiding local."""
        # Where everyone answers one set, a set has only its share of the people.
        sets = self.grouping_sets if self.sets_per_person == "one" else 1
        return -(-self.people // (self.sources * sets)) if self.sources else 0

    @property
    def release_per_set(self) -> float:
        """The ε of the noise of one grouping set: shared by those that one person answers."""
        return self.release_epsilon / (1 if self.sets_per_person == "one" else self.grouping_sets)

    def bound_to(self, task: Task) -> Self:
        """The protocol for one query, which says how many grouping sets there are."""
        return replace(self, query=_as_query(task))

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
        told = "grouping_sets" in given
        refuse(told, "grouping_sets follow from the query: leave the key out")
        travel = {
            name: given[name]
            for name in ("redirect_probability", "sources", "dummies")
            if name in given
        }
        if len(travel) == 3 or given.get("hiding", "scrambler") != "scrambler":
            if limits != Limits():
                raise InvalidParameter(
                    "limits are for choosing redirect_probability, sources or dummies, with hiding "
                    "scrambler: leave one of these out, or the limits"
                )
            return {}
        _check_enough(people, given.get("sources", 0))
        found = fit(
            [min(given.get("targets", 1), each.cells) for each in _as_query(task).sets],
            people,
            epsilon=epsilon,
            delta=delta,
            limits=limits,
            sets_per_person=given.get("sets_per_person", "all"),
            release_epsilon=given.get("release_epsilon", 0.0)
            if "curator" in view_of(view)
            else 0.0,
            **travel,
        )
        chosen = {
            "redirect_probability": found.redirect_probability,
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
    def set_targets(self) -> tuple[int, ...]:
        """The compute nodes of each grouping set: no more than it has cells."""
        if self.query is None:
            return (self.targets,) * self.grouping_sets
        return tuple(min(self.targets, each.cells) for each in self.query.sets)

    def redirect(self, index: int) -> Redirect:
        """How people lie about the target of one grouping set."""
        return Redirect(
            targets=self.set_targets[index], redirect_probability=self.redirect_probability
        )

    @cached_property
    def routings(self) -> tuple[mechanisms.Routing, ...]:
        """What hides where messages go, for each grouping set."""
        if self.randomizer.domain != "target":
            one = mechanisms.SomeScrambler(self.randomizer, self.sources, self.dummies)
            return (one,) * self.grouping_sets
        targets, redirect = self.set_targets, self.redirect_probability
        if self.hiding == "local":
            flood = mechanisms.Flooding
            return tuple(flood(each, redirect, min(self.dummies, each - 1)) for each in targets)
        capped = self.hiding == "capped"
        kind = mechanisms.CappedScrambler if capped else mechanisms.Scrambler
        return tuple(kind(each, redirect, *self._mixed) for each in targets)

    @property
    def _mixed(self) -> tuple[int, int]:
        """People in the fullest group, and the dummies beside them and for whom it misses."""
        # What a cap does is only proven for full groups.
        if self.hiding == "capped":
            return self.sources, self.dummies
        sets = self.grouping_sets if self.sets_per_person == "one" else 1
        fullest = -(-self.people // (self.groups * sets))
        return fullest, self.dummies + self.sources - fullest

    @cached_property
    def plan(self) -> Plan:
        """The nodes and clusters of the whole query, from which its privacy follows."""
        return aggregate(
            self.routings,
            self.people,
            sets_per_person=self.sets_per_person,
            release_epsilon=self.release_epsilon,
        )

    def drawing(self) -> Drawing:
        plan = self.plan
        return Drawing(plan.svg(), plan.text(), tuple(plan.explain()))

    # What is guaranteed.

    def guarantee(self, view: str = "network", colluders: Colluders = 0) -> Guarantee:
        count = check_colluders(colluders, self.people)
        return accountant.query_guarantee(self, view_of(view), count)

    @property
    def views(self) -> tuple[str, ...]:
        return ("network", *(("curator", "curator+network") if self.release_epsilon else ()))

    # How it is run.

    @property
    def helpers(self) -> tuple[Address, ...]:
        return (*topology.helpers(self), CURATOR)

    def contacts(self, person: int) -> tuple[Address, ...]:
        return topology.contacts(self, person)

    def default_task(self) -> Task:
        return self.asked

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self, values, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        return make_actor(self, address, context)

    def duration(self, timing: Timing) -> float:
        return topology.deadlines(timing).result

    def conditional_on(self, collected: Collected) -> Self:
        """As many messages as the scramblers really sent.

        That is as planned, regardless of who was absent: each of them is replaced by a dummy, which
        hides the others no less. A scrambler that sent nothing told nothing. There is one release,
        so that no earlier one can have decided who is there.
        """
        if not isinstance(collected, Tabulated) or not collected.received:
            raise ProtocolFailed("nobody's message came through: give people more time")
        # What a silent compute node got is not known, but it was sent as planned.
        if self.hiding == "local" or any(map(len, collected.lost)):
            return self
        sent = [row.sum() for each in collected.traffic for row in each if each.shape[1] > 1]
        fewest = min((int(each) for each in sent if each), default=self.sources + self.dummies)
        return replace(self, dummies=min(self.dummies, max(0, fewest - self.sources)))

    def subset(self, people: Sequence[int]) -> Self:
        """A query among fewer people; dummies take the place of those that a scrambler misses."""
        missing = max(0, self.sources - len(people))
        return replace(
            self, n=len(people), sources=self.sources - missing, dummies=self.dummies + missing
        )

    def cost(self) -> Cost:
        return cost_of(self)

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> tuple[Fact, ...]:
        del guarantee, colluders
        found = accountant.compared(self, delta) | {"unprotected": self.unprotected}
        return facts_from(found, _UPPER)

    def run_diagnostics(self, collected: Collected, delta: float) -> tuple[Fact, ...]:
        del delta
        if not isinstance(collected, Tabulated):
            return ()
        found = {
            # With noise in the result nobody knows how many there are.
            "tuples": None if any(collected.noise) else list(collected.crowds),
            "absent": [self.people - each for each in collected.present],
            **Load.of(self).described(),
            "unprotected": self.unprotected,
        }
        return facts_from(found, _UPPER)

    @property
    def unprotected(self) -> str:
        """Parties against whom nothing is guaranteed, and why."""
        told = "nothing is proven against compute nodes, which read tuples in the clear"
        if not self.release_epsilon:
            told += ", nor against the curator, who gets the answer as it is"
        return told


def _check_enough(people: int, sources: int) -> None:
    if people and sources > people:
        raise InvalidCrowd(
            f"n = {people} people are fewer than the {sources} that a scrambler needs: "
            "lower sources, or ask more people",
            field="n",
        )


def _as_query(task: Task) -> Query:
    if getattr(task, "domain", None) != "target":
        raise InvalidParameter(
            f"task must be a Query such as Query(sql=…, columns=…), got {task!r}"
        )
    return cast(Query, task)
