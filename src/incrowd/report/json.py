"""Results as plain data: the keys of the JSON output, from sections and from computed objects.

Every number is the full double that was computed; bounds already err on the safe side. Nothing here
rounds.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from incrowd._version import __version__
from incrowd.blocks import DataTable, Fact, Figure, Section, chapters
from incrowd.errors import NumericalFloor
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Cost, Protocol
from incrowd.protocols.capabilities import parts_of
from incrowd.protocols.expected_error import error_if_drawn
from incrowd.protocols.run import Run
from incrowd.protocols.runtime.actor import is_device
from incrowd.protocols.settings import settings_of
from incrowd.randomizers import OneOf
from incrowd.tasks.base import Task

_KEYS = (
    *("title", "questions", "people", "reports", "guarantees", "budget", "spent", "solved"),
    *("parameters", "cost", "measured_cost", "history", "diagnostics", "tables", "live"),
    *("engine", "seed", "versions"),
)
"""Keys that every result has, null where there is nothing to say."""
_ASKED = ("plan", "report")
"""Keys of results that were asked for them."""


def payload(sections: Sequence[Section]) -> dict[str, Any]:
    """Return the JSON output: the usual keys, then those that chapters hold beyond them."""
    found = merged(sections)
    blocks = (block for section in chapters(sections) for block in section.blocks)
    own = (block.name for block in blocks if isinstance(block, Fact))
    further = [key for key in (*own, *_ASKED) if key in found]
    return {key: found.get(key) for key in dict.fromkeys((*_KEYS, *further))}


def merged(sections: Iterable[Section]) -> dict[str, Any]:
    """Return all data of the sections by name; groups of one name are joined."""
    found: dict[str, Any] = {}
    for block in (block for section in sections for block in section.blocks):
        match block:
            case Fact(name, value):
                data = _value(value)
                found[name] = _joined(found.get(name), data) if isinstance(value, tuple) else data
            case Figure(_, data):
                found |= data
            case DataTable(name, columns, rows, file=False):
                cells = {"columns": list(columns), "rows": [list(row) for row in rows]}
                found.setdefault("tables", {})[name] = cells | _value(block.facts)
    return found


def _joined(first: Any, second: Any) -> Any:
    """Return both groups of facts in one; the second wins where they differ."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    return first | {key: _joined(first.get(key), each) for key, each in second.items()}


def _value(value: Any) -> Any:
    return {each.name: _value(each.value) for each in value} if isinstance(value, tuple) else value


def lower_bound(guarantee: Guarantee, delta: float) -> float | None:
    """Return the ε of the best known attack; none where double precision ends.

    A lower bound of 0 beside a positive proven ε says nothing: the attack found nothing, or
    rounding left nothing of it.
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
    """Describe a guarantee at one δ, with the ``epsilon`` known there; an order has an α."""
    stated = {
        "view": guarantee.view_name,
        "colluders": guarantee.colluders,
        "notion": guarantee.notion,
        "neighbours": guarantee.neighbours,
        "theorem": guarantee.theorem,
        "assumptions": list(guarantee.assumptions),
    }
    if guarantee.notion == "order":
        return {"alpha": guarantee.alpha, "groups": guarantee.groups or None} | stated
    epsilon = guarantee.epsilon(delta) if epsilon is None else epsilon
    bound = lower_bound(guarantee, delta)
    return {"epsilon": epsilon, "delta": delta, "lower_bound": bound} | stated


def describe_solved(protocol: Protocol, solved: bool) -> dict[str, Any] | None:
    """Describe the setting that a survey's budget was solved for; none where all were given."""
    return {"name": "local_epsilon", "value": protocol.randomizer.epsilon} if solved else None


def describe_parameters(protocol: Protocol) -> dict[str, Any]:
    """Describe the parameters of a protocol and its randomizer."""
    parts = [_parameters(part) for part in parts_of(protocol)]
    if len(parts) == 1:
        return {"protocol": protocol.kind} | parts[0]
    if protocol.randomizer.domain == "several":
        drawn = zip(_chances(protocol), parts, strict=True)
        parts = [{"chance": chance} | part for chance, part in drawn]
    return {"protocol": protocol.kind, "questions": parts}


def _parameters(protocol: Protocol) -> dict[str, Any]:
    """Describe settings and randomizer of one question's protocol."""
    settings: dict[str, Any] = msgspec.to_builtins(settings_of(protocol))
    randomizer = {"kind": protocol.randomizer.kind} | msgspec.to_builtins(protocol.randomizer)
    return settings | {"randomizer": randomizer}


def _chances(protocol: Protocol) -> Sequence[float]:
    """Return the share of the people who answer each question."""
    if protocol.randomizer.domain != "several":
        return [1.0] * len(parts_of(protocol))
    return cast("OneOf", protocol.randomizer).probabilities


def describe_cost(cost: Cost, task: Task, protocol: Protocol, people: int) -> dict[str, Any]:
    """Describe the planned cost per person; the error is in the units of the answer."""
    described: dict[str, Any] = msgspec.to_builtins(cost)
    return described | {"expected_error": _expected_error(cost, task, protocol, people)}


def describe_errors(protocol: Protocol, tasks: Sequence[Task]) -> list[float | None]:
    """Describe the expected error of the answer to each question, in its units."""
    asked = zip(parts_of(protocol), tasks, _chances(protocol), strict=True)
    return [_expected_error(part.cost(), task, part, part.n, share) for part, task, share in asked]


def _expected_error(
    cost: Cost, task: Task, protocol: Protocol, people: int, chance: float = 1.0
) -> float | None:
    error, sampled = cost.expected_error, protocol.collected_type.sampled
    if chance < 1:
        error = error_if_drawn(error, protocol.randomizer, chance, sampled=sampled)
        sampled = True
    if error is None:
        return None
    return task.expected_error(error, protocol.randomizer, people, sampled=sampled)


def describe_measured(run: Run) -> dict[str, Any] | None:
    """Describe the measured cost per device that took part; none where none was played."""
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


def describe_versions() -> dict[str, str]:
    """Describe the versions that produced a result, to produce it again."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("numpy", "scipy", "dp-accounting")}
    return {"incrowd": __version__, "python": platform.python_version(), **libraries}
