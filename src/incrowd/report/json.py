"""Results as plain data: the keys of the JSON output, from sections and from what was computed.

Every number is the full double that was computed; bounds already err on the safe side. Nothing here
rounds.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from incrowd._version import __version__
from incrowd.blocks import DataTable, Fact, Figure, Section, chapters
from incrowd.errors import NumericalFloor
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Cost, Protocol
from incrowd.protocols.run import Run
from incrowd.protocols.runtime.actor import is_device
from incrowd.protocols.settings import settings_of
from incrowd.tasks.base import Task

_KEYS = (
    *("question", "result", "interval", "table", "release", "refined", "truth", "missing", "gaps"),
    *("people", "reports", "guarantees", "budget", "parameters", "cost", "measured", "details"),
    *("live", "mode", "seed", "versions"),
)
"""Keys that every result has, null where there is nothing to say."""
_ASKED = ("plan", "report")
"""Keys of results that were asked for them."""


def payload(sections: Sequence[Section]) -> dict[str, Any]:
    """The keys of the JSON output; what chapters hold beyond them follows."""
    found = merged(sections)
    own = [
        block.name
        for section in chapters(sections)
        for block in section.blocks
        if isinstance(block, Fact | DataTable)
    ]
    further = [key for key in (*own, *_ASKED) if key in found]
    return {key: found.get(key) for key in dict.fromkeys((*_KEYS, *further))}


def merged(sections: Iterable[Section]) -> dict[str, Any]:
    """All data that the sections hold, by their names; groups of one name are joined."""
    found: dict[str, Any] = {}
    for block in (block for section in sections for block in section.blocks):
        match block:
            case Fact(name, value):
                data = _value(value)
                joined = isinstance(value, tuple) and name in found
                found[name] = found[name] | data if joined else data
            case Figure(_, data):
                found |= data
            case DataTable(name, columns, rows, file=False):
                cells = {"columns": list(columns), "rows": [list(row) for row in rows]}
                found[name] = cells | _value(block.facts)
    return found


def _value(value: Any) -> Any:
    return {each.name: _value(each.value) for each in value} if isinstance(value, tuple) else value


def lower_bound(guarantee: Guarantee, delta: float) -> float | None:
    """The ε of the best known attack; none where none is known or double precision ends.

    An attack that attains 0 beside a positive proven ε says nothing: it found nothing, or rounding
    left nothing of it.
    """
    try:
        attained = guarantee.lower(delta) if delta else None
        nothing = attained == 0 and guarantee.epsilon(delta) > 0
    except NumericalFloor:
        return None
    return None if nothing else attained


def describe_guarantee(
    guarantee: Guarantee, delta: float, epsilon: float | None = None
) -> dict[str, Any]:
    """One promise at one δ; an ``epsilon`` that is already known to be proven there is stated.

    Of an order there is an α instead, which needs no δ.
    """
    stated = {
        "view": guarantee.view_name,
        "colluders": guarantee.colluders,
        "notion": guarantee.notion,
        "neighbours": guarantee.neighbours,
        "method": guarantee.theorem,
        "assumptions": list(guarantee.assumptions),
    }
    if guarantee.notion == "order":
        return {"alpha": guarantee.alpha, "groups": guarantee.groups or None} | stated
    if epsilon is None:
        epsilon = guarantee.epsilon(delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "lower_bound": lower_bound(guarantee, delta),
    } | stated


def describe_parameters(protocol: Protocol) -> dict[str, Any]:
    """What the protocol was given, its randomizer included."""
    parameters: dict[str, Any] = msgspec.to_builtins(settings_of(protocol))
    randomizer = {"kind": protocol.randomizer.kind} | msgspec.to_builtins(protocol.randomizer)
    return {"protocol": protocol.kind} | parameters | {"randomizer": randomizer}


def describe_refined(run: Run, delta: float, view: str) -> list[dict[str, Any]]:
    """The answer after some of the rounds, and the ε of a run of which no more had been planned.

    The numbers are in the order of the result's rows. Empty where a protocol asks only once.
    """
    return [
        {
            "rounds": each.rounds,
            "epsilon_if_planned": each.protocol.guarantee(view).epsilon(delta),
            "estimate": each.result.value.tolist(),
            "low": each.result.low.tolist(),
            "high": each.result.high.tolist(),
        }
        for each in run.refined
    ]


def describe_cost(cost: Cost, task: Task, people: int) -> dict[str, Any]:
    """What taking part costs each person as planned; the error is in the units of the answer."""
    described: dict[str, Any] = msgspec.to_builtins(cost)
    if cost.expected_error is not None:
        described["expected_error"] = task.scale(people) * cost.expected_error
    return described


def describe_measured(run: Run) -> dict[str, Any] | None:
    """What each device that took part really sent, on average; none where none was played."""
    played = getattr(run, "played", None)
    if played is None:
        return None
    sent = [each for party, each in played.traffic.items() if is_device(party)]
    people = max(1, len(sent))
    return {
        "messages_per_person": sum(each.messages for each in sent) / people,
        "bytes_per_person": sum(each.bytes for each in sent) / people,
        "messages_lost": played.statistics.lost,
    }


def describe_live(run: Run) -> dict[str, Any] | None:
    """What a live run sent and took; none where nothing went over a network."""
    # Asked by name: the module of live runs needs packages that may not be installed.
    statistics = getattr(run, "live", None)
    return None if statistics is None else msgspec.to_builtins(statistics)


def describe_versions() -> dict[str, str]:
    """What produced a result, to produce it again."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("numpy", "scipy", "dp-accounting")}
    return {"incrowd": __version__, "python": platform.python_version(), **libraries}
