"""The one place that knows how today's library builds and evaluates a golden case.

A change of the library's classes, constructors or names is followed here and nowhere else: neither
the grid nor the recorded values may change with it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from incrowd import blocks, graphs
from incrowd.errors import IncrowdError, NotProven
from incrowd.graphs.graph import Graph
from incrowd.live.accounting import CELLS
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import run_diagnostics
from incrowd.protocols.check_in import CheckIn
from incrowd.protocols.local import Local
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.order_shuffle import OrderShuffle, groupings
from incrowd.protocols.registry import build
from incrowd.protocols.run import Run
from incrowd.protocols.runtime.actor import CURATOR, device
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query.tuning import Limits
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import RANDOMIZERS, GaussianVector, Randomizer, Unstated
from incrowd.sim import Faults
from incrowd.sim import run as play
from incrowd.tasks import Column, Query, Release, Task
from tests.golden.grid import Case

__all__ = ["evaluate"]

SEED = 7

WEATHER: dict[str, Faults | None] = {
    "calm": None,
    "stormy": Faults(loss=0.15, duplicate=0.2, reorder=0.3, crash=0.05, delay_law="heavy"),
    "absent": Faults(dropout=0.2, loss=0.05, delay_law="constant"),
    "switched off": Faults(outages=40.0, downtime=45.0, crash=0.02),
}


# Building a case.


def built(case: Case) -> tuple[Protocol, Task | None, Any]:
    """The protocol, what is asked of it, and everybody's values before they are encoded."""
    settings = dict(case.settings)
    randomizer = None if case.randomizer is None else randomizer_of(*case.randomizer)
    task = QUESTIONS[case.question]() if case.question else None
    protocol = MAKERS[case.protocol](case, randomizer, task, settings)
    if task is not None:
        protocol = protocol.bound_to(task)
    return protocol, task, values_of(case, protocol, task)


def randomizer_of(kind: str, settings: Mapping[str, Any]) -> Randomizer:
    kinds = RANDOMIZERS.load_all() | {"gaussian-vector": GaussianVector, "unstated": Unstated}
    return kinds[kind](**settings)


def plain(kind: type[Protocol]) -> Callable[..., Protocol]:
    """A protocol that is made from a randomizer and its settings."""

    def make(case: Case, randomizer: Any, task: Any, settings: dict[str, Any]) -> Protocol:
        del case, task
        make: Any = kind
        return make(randomizer, **settings)

    return make


def network_shuffle(case: Case, randomizer: Any, task: Any, settings: dict[str, Any]) -> Protocol:
    del task
    named = settings.pop("graph", "")
    if isinstance(named, str):
        return build(NetworkShuffle, {"graph": named, **settings}, randomizer)
    several = isinstance(named[0], tuple)
    graph = [graph_of(each) for each in named] if several else graph_of(named)
    people = graph[0].n if isinstance(graph, list) else graph.n
    if away := settings.pop("away", ()):
        table = np.zeros((settings["rounds"], people), bool)
        table[tuple(zip(*away, strict=True))] = True
        settings["away"] = table
    if silent := settings.pop("silent", ()):
        settings["silent"] = np.isin(np.arange(people), silent)
    return NetworkShuffle(randomizer, graph=graph, **settings).planned(case.delta)


def order_shuffle(case: Case, randomizer: Any, task: Any, settings: dict[str, Any]) -> Protocol:
    del case, task
    named = settings.pop("groups", None)
    return OrderShuffle(randomizer, groups=None if named is None else groups_of(*named), **settings)


def token_walk(case: Case, randomizer: Any, task: Any, settings: dict[str, Any]) -> Protocol:
    del case, task
    named = settings.pop("graph", None)
    graph = None if named is None else graph_of(named)
    return TokenWalk(randomizer, graph=graph, **settings)


def scrambled_query(case: Case, randomizer: Any, task: Any, settings: dict[str, Any]) -> Protocol:
    if case.facts.get("tuned"):
        settings |= tuned(case, task, settings)
    if randomizer is not None:
        return ScrambledQuery(randomizer, **settings)
    return ScrambledQuery(**settings, query=task)


def tuned(case: Case, task: Task, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything about the routing of a query: what is given, and what is chosen."""
    facts = case.facts
    given = facts.get("settings", {})
    chosen = ScrambledQuery.fitted(
        settings | given,
        task=task,
        people=facts["people"],
        epsilon=case.epsilon,
        delta=case.delta,
        view="network",
        limits=Limits(**facts.get("limits", {})),
    )
    return {"n": facts["people"]} | given | chosen


MAKERS: dict[str, Callable[[Case, Any, Any, dict[str, Any]], Protocol]] = {
    "local": plain(Local),
    "trusted shuffle": plain(TrustedShuffle),
    "check-in": plain(CheckIn),
    "network shuffle": network_shuffle,
    "order shuffle": order_shuffle,
    "token walk": token_walk,
    "scrambled query": scrambled_query,
}


def graph_of(named: tuple[Any, ...]) -> Graph:
    family, *numbers = named
    rng = np.random.default_rng(SEED)
    match family:
        case "regular":
            return graphs.random_regular(*numbers, rng)
        case "scale-free":
            return graphs.barabasi_albert(*numbers, rng)
        case "complete":
            return graphs.complete(*numbers)
        case "grid":
            return graphs.grid(*numbers)
        case _:
            return graphs.ring(*numbers)


def groups_of(kind: str, *numbers: Any) -> groupings.Grouping:
    if kind == "steps":
        graph, steps = numbers
        return groupings.from_graph(graph_of(graph), steps)
    (n,) = numbers
    if kind == "line":
        near = [[each for each in (p - 1, p, p + 1) if 0 <= each < n] for p in range(n)]
        return groupings.from_lists(near, n)
    return groupings.from_lists([list(range(begin, begin + 4)) for begin in range(0, n, 4)], n)


# What is asked, and what people hold.

CATEGORIES = ("a", "b", "c", "d", "e")
PATIENTS = (
    Column(name="region", type="category", values=("north", "east", "south"), complete=True),
    Column(name="sex", type="category", values=("f", "m"), complete=True),
    Column(name="stay", type="integer", low=0, high=100, complete=True),
    Column(name="score", type="number", low=-1.0, high=1.0, complete=True),
)
SETS = (
    "SELECT region, sex, COUNT(*), SUM(stay), MAX(stay), AVG(score) FROM patients "
    "WHERE stay < 80 GROUP BY GROUPING SETS ((region, sex), (region), ())"
)
SUMS = "SELECT region, COUNT(*), SUM(stay), AVG(score) FROM patients GROUP BY region"
NUMBERS = "SELECT number, COUNT(*) FROM t GROUP BY number"


def numbers_asked() -> Query:
    column = Column(name="number", type="integer", low=0, high=11, complete=True)
    return Query(sql=NUMBERS, table="t", columns=(column,))


QUESTIONS: dict[str, Callable[[], Task]] = {
    "release at points": lambda: Release(
        categories=CATEGORIES, coordinates=("x", "y"), complete=True
    ),
    "release in groups": lambda: Release(categories=CATEGORIES, groups="near", complete=True),
    "count numbers": numbers_asked,
    "grouping sets": lambda: Query(sql=SETS, table="patients", columns=PATIENTS),
    "sums in groups": lambda: Query(sql=SUMS, table="patients", columns=PATIENTS),
}


def values_of(case: Case, protocol: Protocol, task: Task | None) -> Any:
    n, randomizer = protocol.n, protocol.randomizer
    if isinstance(task, Release):
        places = {
            "release at points": lambda person: (f"{1.5 * person}", f"{person % 3 - 1.5}"),
            "release in groups": lambda person: (f"g{person}; g{person + 1}; g{person + 2}",),
        }[case.question]
        return task.rows([(CATEGORIES[each % 5], *places(each)) for each in range(n)])
    if isinstance(task, Query):
        return task.rows([[cells_of(each)[name] for name in task.asks()] for each in range(n)])
    if randomizer.domain == "interval":
        return np.linspace(0, 1, n)
    if randomizer.domain == "vector":
        return np.eye(3)[np.arange(n) % 3]
    return np.arange(n) % getattr(randomizer, "categories", 2)


def cells_of(person: int) -> dict[str, str]:
    """One person's cell of every column that some query asks for."""
    return {
        "number": str(person),
        "region": PATIENTS[0].values[person % 3],
        "sex": PATIENTS[1].values[person // 3 % 2],
        "stay": str(17 * person % 101),
        "score": f"{math.sin(person):.6f}",
    }


# Evaluating it.


def evaluate(case: Case) -> dict[str, Any]:
    """Everything that is recorded of a case, as plain data under plain names."""
    protocol, task, values = built(case)
    if isinstance(protocol, OrderShuffle) and task is not None:
        planned: Protocol = protocol.prospective(task.encode(values))
    else:
        planned = protocol
    found: dict[str, Any] = {
        **dict(guarantees(case, planned, case.colluders)),
        "cost": outcome(lambda: cost_of(planned)),
        "parties": [str(each) for each in planned.helpers],
        "views": list(planned.views),
        "lasts": outcome(lambda: planned.duration(Timing())),
    }
    if has_facts(case):
        found["facts"] = outcome(lambda: facts_of(case, planned))
    if case.missing:
        found["among fewer"] = outcome(lambda: fewer(case, planned))
    if case.facts.get("tuned"):
        chosen = protocol
        found["tuned"] = [chosen.redirect_probability, chosen.sources, chosen.dummies]
    if case.covered:
        found["under cover"] = outcome(lambda: cover_of(case, planned))
    if case.simulated:
        found["simulated"] = outcome(
            lambda: run_of(case, protocol, protocol.simulate(values, task=task, seed=SEED))
        )
    for weather in case.played:
        found[f"played, {weather}"] = outcome(
            lambda weather=weather: played(case, protocol, task, values, weather)
        )
    if case.missing:
        collected = protocol.simulate(values, task=task, seed=SEED).collected
        for what in case.missing:
            found[f"without {what}"] = outcome(
                lambda what=what: happened(case, protocol, MISSING[what](collected))
            )
    return plain_data(found)


def outcome(compute: Callable[[], Any]) -> Any:
    """The result, or in a word why there is none."""
    try:
        return compute()
    except NotProven:
        return "not proven"
    except NotImplementedError:
        return "not implemented"
    except IncrowdError as refused:
        return f"refused: {type(refused).__name__}"


def guarantees(
    case: Case, protocol: Protocol, colluders: Iterable[Any]
) -> Iterator[tuple[str, Any]]:
    for who in colluders:
        helped = f" with colluders {who}" if who else ""
        for view in case.views:
            yield (
                f"against {view}{helped}",
                outcome(lambda view=view, who=who: bounds(case, protocol.guarantee(view, who))),
            )
            if isinstance(protocol, OrderShuffle):
                yield (
                    f"order against {view}{helped}",
                    outcome(
                        lambda view=view, who=who: bounds(case, protocol.order_guarantee(view, who))
                    ),
                )


def bounds(case: Case, guarantee: Any) -> dict[str, Any] | None:
    if guarantee is None:
        return None
    return {
        "epsilon": guarantee.epsilon(case.delta),
        "pure epsilon": guarantee.epsilon(0),
        "delta": guarantee.delta(case.epsilon),
        "lower bound": guarantee.lower(case.delta),
        "per person": guarantee.per_person(case.delta),
        "neighbours": guarantee.neighbours,
        "colluders": guarantee.colluders,
        "theorem": Sentence(guarantee.theorem),
        "assumptions": [Sentence(each) for each in guarantee.assumptions],
    }


def cost_of(protocol: Protocol) -> dict[str, Any]:
    cost = protocol.cost()
    return {
        "rounds": cost.rounds,
        "messages per person": cost.messages_per_person,
        "bytes per person": cost.bytes_per_person,
        "extra people": cost.extra_people,
        "expected error": cost.expected_error,
    }


def has_facts(case: Case) -> bool:
    """Facts may need the curve against the curator, which some cases leave out as too slow."""
    return case.views != ("everyone",)


def facts_of(case: Case, protocol: Protocol) -> Any:
    return blocks.values_of(protocol.diagnostics(case.delta, protocol.guarantee(case.views[0])))


def fewer(case: Case, protocol: Protocol) -> dict[str, Any]:
    """The same among all people but the first and the last, counted backwards."""
    kept = list(range(protocol.n))[-2:0:-1]
    return stated(case, protocol.subset(kept))


def stated(case: Case, protocol: Protocol) -> dict[str, Any]:
    """What is stated of a protocol in a few numbers: ε by view, and the cost."""
    found = {
        view: outcome(lambda view=view: protocol.guarantee(view).epsilon(case.delta))
        for view in case.views
    }
    if isinstance(protocol, OrderShuffle):
        order = outcome(protocol.order_guarantee)
        found["order"] = order if order is None or isinstance(order, str) else order.alpha
    return found | {"cost": outcome(lambda: cost_of(protocol))}


def cover_of(case: Case, protocol: Protocol) -> dict[str, Any]:
    covered = protocol.covered(case.delta, CELLS)
    plan = covered.cover
    parties = [device(0), device(5), *protocol.helpers]
    timetable = [
        [(tick.at, sorted(tick.cells.items())) for tick in plan.ticks(each, Timing())]
        for each in parties
    ]
    return {
        **dict(guarantees(case, covered, (0,))),
        "overflow": plan.overflow,
        "ticks": [len(each) for each in timetable],
        "cells": sum(count for each in timetable for _, cells in each for _, count in cells),
        "timetable": digest(timetable),
        "first pause": plan.paced(Timing()).backoff.first,
        "cost": cost_of(covered),
    }


def run_of(case: Case, protocol: Protocol, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {
        **answer_of(run.result),
        "reports": digest(collected_of(run.collected)),
        "received": run.collected.received,
        "sent": run.collected.sent,
        "stated": [
            [each.notion, each.view_name, Sentence(each.theorem)] for each in run.guarantees
        ],
    }
    if has_facts(case):
        found["facts"] = outcome(
            lambda: blocks.values_of(run_diagnostics(protocol, run.collected, case.delta))
        )
    if run.refined:
        found["after fewer rounds"] = [
            [each.rounds, each.result.value, cost_of(each.protocol)] for each in run.refined
        ]
    return found


def played(case: Case, protocol: Protocol, task: Any, values: Any, weather: str) -> dict[str, Any]:
    run = play(protocol, values, task=task, faults=WEATHER[weather], seed=SEED)
    statistics, traffic = run.played.statistics, run.played.traffic.values()
    # Where nothing is lost, a run states what was planned, which is recorded already.
    lost = case.missing and weather in ("absent", "switched off")
    return run_of(case, protocol, run) | {
        "as it happened": happened(case, protocol, run.collected) if lost else None,
        "finished": run.played.finished,
        "network": {
            name: getattr(statistics, name)
            for name in (
                "sent",
                "delivered",
                "lost",
                "duplicated",
                "crashes",
                "outages",
                "absent",
                "duration",
            )
        },
        "messages": sum(each.messages for each in traffic),
        "bytes": sum(each.bytes for each in traffic),
        "bytes of the curator": run.played.traffic[CURATOR].bytes
        if CURATOR in run.played.traffic
        else 0,
    }


def happened(case: Case, protocol: Protocol, collected: Any) -> dict[str, Any]:
    return stated(case, protocol.conditional_on(collected))


def answer_of(answer: Any) -> dict[str, Any]:
    found = {
        "labels": digest(answer.labels),
        "estimate": answer.value,
        "low": answer.low,
        "high": answer.high,
        "standard error": answer.standard_error,
        "people": answer.people,
        "missing": Sentence(answer.missing),
    }
    if hasattr(answer, "rows"):
        found["rows"] = digest(answer.rows)
    return found


COLLECTED = (
    "rounds",
    "sent",
    "holders",
    "away",
    "silent",
    "attendance",
    "load",
    "lost",
    "present",
    "unheld",
    "who",
    "at",
    "points",
    "groups",
    "total",
    "reports",
    "noise",
    "steps",
    "crowd",
    "losses",
    "drawn",
    "correlation",
    "folded",
    "kept",
    "traffic",
)
"""What the curator may hold at the end, in the order in which it is hashed."""


def collected_of(collected: Any) -> list[Any]:
    return [getattr(collected, name) for name in COLLECTED if hasattr(collected, name)]


# Losses: a run as if some of it had not arrived.


def change_round(collected: Any, index: int, keep: int) -> Any:
    rounds = list(collected.rounds)
    rounds[index] = rounds[index][:keep]
    return replace(collected, rounds=tuple(rounds))


def first_rounds(collected: Any) -> Any:
    """Without the last round: it was not waited for."""
    kept: dict[str, Any] = {"rounds": collected.rounds[:-1]}
    if hasattr(collected, "present"):
        kept["present"] = collected.present[:-1]
    return replace(collected, **kept)


def people_away(collected: Any) -> Any:
    people = int(collected.load.size)
    away = np.zeros((4, people), bool)
    away[1, 2] = away[2, 3] = True
    return replace(collected, away=away)


def silent_person(collected: Any) -> Any:
    kept = collected.holders != 3
    return replace(
        collected,
        rounds=tuple(reports[kept] for reports in collected.rounds),
        holders=collected.holders[kept],
        silent=np.arange(collected.load.size) == 3,
    )


def some_places(collected: Any) -> Any:
    kept = np.arange(len(collected.who)) % 4 != 1
    return replace(
        collected,
        rounds=tuple(reports[kept] for reports in collected.rounds),
        who=collected.who[kept],
        at=np.arange(kept.sum()),
        points=None if collected.points is None else collected.points[kept],
        groups=None
        if collected.groups is None
        else tuple(each for each, stays in zip(collected.groups, kept, strict=True) if stays),
    )


def quiet_scrambler(collected: Any) -> Any:
    traffic = tuple(each.copy() for each in collected.traffic)
    for each in traffic:
        each[0, 0] = max(0, each[0, 0] - 1)
    return replace(collected, traffic=traffic)


MISSING: dict[str, Callable[[Any], Any]] = {
    "some of a round": lambda collected: change_round(collected, 1, 8),
    "a round is empty": lambda collected: change_round(collected, 1, 0),
    "the last round": first_rounds,
    "some people in a round": lambda collected: replace(
        collected, present=(*(each - 4 for each in collected.present[:1]), *collected.present[1:])
    ),
    "two people away": people_away,
    "a silent person": silent_person,
    "a lost report": lambda collected: replace(
        change_round(collected, 0, -1), holders=collected.holders[:-1], lost=1
    ),
    "some places": some_places,
    "an unread report": lambda collected: replace(
        change_round(collected, 0, -1), at=collected.at[:-1]
    ),
    "a person": lambda collected: replace(collected, crowd=collected.crowd - 1),
    "some steps": lambda collected: replace(collected, steps=collected.steps - 2),
    "some noise": lambda collected: replace(collected, noise=collected.noise - 2),
    "a scrambler's messages": quiet_scrambler,
    "a compute node": lambda collected: replace(
        collected, lost=tuple(np.array([0]) for _ in collected.folded)
    ),
}


# Plain data.


class Sentence(str):
    """A sentence that people read; it is kept once for all cases."""


def digest(value: Any) -> str:
    """A short name of exactly this value, whatever holds it."""
    taken = hashlib.sha256()

    def take(value: Any) -> None:
        if isinstance(value, np.ndarray):
            taken.update(f"array{value.dtype.str}{value.shape}".encode())
            taken.update(np.ascontiguousarray(value).tobytes())
        elif is_dataclass(value) and not isinstance(value, type):
            take([getattr(value, each.name) for each in fields(value)])
        elif isinstance(value, list | tuple):
            taken.update(f"list{len(value)}".encode())
            for each in value:
                take(each)
        elif isinstance(value, np.generic):
            take(value.item())
        else:
            assert value is None or isinstance(value, bool | int | float | str), type(value)
            taken.update(f"{type(value).__name__} {value!r};".encode())

    take(value)
    return taken.hexdigest()[:16]


def plain_data(value: Any) -> Any:
    """The same in what JSON has, sentences kept apart from other texts."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain_data(value.tolist())
    if isinstance(value, list | tuple):
        return [plain_data(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value
