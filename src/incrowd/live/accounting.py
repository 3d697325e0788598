"""The guarantees of an offer, recomputed from its bytes in a bounded process.

An offer comes from a stranger, and what it promises may take any time to recompute. Static limits
are checked before anything is built from it (:func:`check_limits`); then protocol and guarantees
are computed in a sandbox (:func:`recompute`), from the very bytes that were signed, to plain
numbers. Whatever does not end within the bounds of the sandbox is refused like what is not proven.

Costs are stated for a view alone, or together with *any* number of people who collude: a helper's
crowd, or that of a token on a hidden path, is then the rest; among the people of a network shuffle
they may be one's only neighbours, so that the randomizer alone protects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from incrowd.errors import IncrowdError
from incrowd.graphs.graph import Graph
from incrowd.live import task as tasks
from incrowd.live.cells import CAPACITY, RECORD
from incrowd.live.links import SEAL
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.sandbox import CPU_SECONDS, MEMORY_BYTES, Ended, Sandbox
from incrowd.live.task import Promise, Spec
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import (
    contacts_of,
    cover_of,
    covered,
    guarantee_against_any,
    parts_of,
)
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan
from incrowd.protocols.settings import public_settings, settings_of
from incrowd.tasks.base import Task
from incrowd.views import view_name

CELLS = CellFormat(capacity=CAPACITY, record=RECORD, seal=SEAL)
"""Room in a cell, for the plans of cover traffic."""

MOST_PEOPLE: Final = 10**6
MOST_CATEGORIES: Final = 4096
MOST_EDGES: Final = 10**7
MOST: Final = {"rounds": 10**4, "steps": 10**5, "categories": MOST_CATEGORIES}
"""Largest whole numbers in the parameters of an offer; ``MOST_PEOPLE`` for all others."""
_SHORTEST_ROUND: Final = 0.1
FAR: Final = 30 * 86_400.0
"""No start lies further ahead than this, and no survey lasts longer, in seconds."""
_EVERYONE: Final = "everyone"
_WALKED: Final = ("steps", "laps", "tokens")
"""Parameters of token walks."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A question to the accounting: bytes of an offer, and the crowd that is asked about."""

    task: bytes
    """The signed task."""
    graph: bytes | None
    people: list[int] | None = None
    """Places of those who began; none for everyone on the roster."""
    promises: list[Promise] | None = None
    """Promises of a start, in place of those of the task."""
    colluders: int = 0


class Costs(msgspec.Struct, frozen=True, array_like=True):
    """Recomputed ε and δ towards each view; views without a proven guarantee are left out."""

    views: dict[str, tuple[float, float]]

    @property
    def local(self) -> tuple[float, float]:
        """Guarantee of the randomizer alone; infinite ε where there is none."""
        return self.views.get(_EVERYONE, (math.inf, 0.0))


class _Refusal(msgspec.Struct, frozen=True, array_like=True):
    reason: Reason
    detail: str


class Built(msgspec.Struct, frozen=True):
    """Protocol, timetable of cover traffic and question of an offer."""

    protocol: Protocol
    plan: CoverPlan | None
    task: Task
    delta: float


# Before anything is built.


def check_limits(spec: Spec, graph: bytes | None = None) -> None:
    """Refuse an offer that is larger than any that could be played."""
    if spec.people > MOST_PEOPLE:
        raise Rejected(Reason.oversized, f"more than {MOST_PEOPLE} people are asked")
    walked = 0
    for asked in spec.questions:
        for described in (asked.parameters, asked.randomizer):
            for name, value in described.items():
                _check_number(name, value)
        steps, laps, tokens = (_whole(asked.parameters.get(each)) for each in _WALKED)
        walked += max(steps, laps * spec.people) * max(tokens, 1)
        _check_lists(asked.task)
    if walked > MOST["steps"]:
        raise Rejected(Reason.oversized, f"tokens make more than {MOST['steps']} steps")
    if graph is not None and len(graph) > 16 + 8 * (MOST_PEOPLE + 1) + 8 * MOST_EDGES:
        raise Rejected(Reason.oversized, f"the graph has more than {MOST_EDGES} edges")


def _whole(value: Any) -> int:
    """A parameter that is a number; 0 for what is none, which is refused when it is built."""
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def _check_number(name: str, value: Any) -> None:
    most = MOST.get(name, MOST_PEOPLE)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > most:
        raise Rejected(Reason.oversized, f"{name} is above {most}")
    if isinstance(value, list | tuple):
        if len(value) > MOST_PEOPLE:
            raise Rejected(Reason.oversized, f"{name} lists more than {MOST_PEOPLE} numbers")
        for each in value:
            if isinstance(each, dict):  # a description within the description
                for inner, held in each.items():
                    _check_number(inner, held)


def _check_lists(described: Any) -> None:
    """Refuse more categories than the limit, at any depth of a question."""
    if isinstance(described, dict):
        described = list(described.values())
    if isinstance(described, list | tuple):
        if len(described) > MOST_CATEGORIES:
            raise Rejected(Reason.oversized, f"more than {MOST_CATEGORIES} categories are listed")
        for each in described:
            _check_lists(each)


# What is built.


def build(spec: Spec, graph: bytes | None) -> Built:
    """The protocol and the question of an offer, from its public parts alone."""
    check_limits(spec, graph)
    protocol, asked = tasks.offered_protocol(spec, _graph(spec, graph))
    _check_fit(spec, protocol)
    _check_views(spec.promises, protocol.views)
    delta = min(promise.delta for promise in spec.promises)
    _check_playable(spec, protocol)
    protocol, plan = _covered(protocol, spec, delta)
    return Built(protocol, plan, asked, delta)


def subset(built: Built, spec: Spec, people: Sequence[int]) -> Built:
    """The same among those who began."""
    if len(people) == spec.people:
        return built
    try:
        fewer = built.protocol.subset(people)
    except IncrowdError as error:
        raise Rejected(Reason.malformed, str(error)) from error
    protocol, plan = _covered(fewer, spec, built.delta)
    return Built(protocol, plan, built.task, built.delta)


def promises_of(protocol: Protocol, delta: float) -> list[Promise]:
    """The guarantees of a protocol against each view at this δ."""
    return [
        Promise(view=view, epsilon=protocol.guarantee(view).epsilon(delta), delta=delta)
        for view in protocol.views
    ]


def _graph(spec: Spec, encoded: bytes | None) -> Graph | None:
    if spec.graph is None:
        if encoded is not None:
            raise Rejected(Reason.malformed, "a graph is shown that was not signed")
        return None
    if encoded is None:
        raise Rejected(Reason.malformed, "the graph that was signed is not shown")
    return tasks.decode_graph(encoded, spec.graph)


def _check_fit(spec: Spec, protocol: Protocol) -> None:
    """Parameters of another crowd, other parties, and randomizers that leak are refused."""
    if protocol.n != spec.people:
        raise Rejected(Reason.malformed, "the parameters are those of another number of people")
    if any(settings_of(part) != public_settings(part) for part in parts_of(protocol)):
        raise Rejected(Reason.malformed, "the parameters mean something on one machine only")
    if set(protocol.helpers) != set(spec.helpers):
        raise Rejected(
            Reason.malformed,
            f"{protocol.kind} needs exactly {', '.join(protocol.helpers)} besides people",
        )
    for part in parts_of(protocol):
        if not part.randomizer.exact:
            raise Rejected(
                Reason.unproven,
                f"{part.randomizer.kind} is drawn in floating point, whose last bits can betray a "
                "value: choose onebit, krr or another randomizer that answers with whole numbers",
            )


def _check_playable(spec: Spec, protocol: Protocol) -> None:
    """What is proven about a crowd must be about one that can be played, for a time that ends."""
    if spec.timing.round_seconds < _SHORTEST_ROUND or spec.timing.grace_rounds < 1:
        # Else the walk could be over before anybody's report has left.
        raise Rejected(Reason.malformed, "the rounds are too short to be kept")
    try:
        contacts_of(protocol, 0)
        lasts = protocol.duration(spec.timing)
    except (ArithmeticError, IncrowdError) as error:
        raise Rejected(Reason.malformed, str(error)) from error
    if not lasts < FAR:
        raise Rejected(Reason.malformed, "the survey would take more than a month")


def _check_views(promises: Sequence[Promise], wanted: Sequence[str]) -> None:
    views = [promise.view for promise in promises]
    missing = set(wanted) - set(views)
    if missing:
        unstated = ", ".join(sorted(missing))
        raise Rejected(Reason.unproven, f"no guarantee is stated against {unstated}")
    if len(views) != len(set(views)):
        raise Rejected(Reason.malformed, "two guarantees are stated against one view")
    for promise in promises:
        if not 0 < promise.delta < 1 or not math.isfinite(promise.epsilon):
            raise Rejected(Reason.unproven, "a guarantee must be a number")


def _covered(protocol: Protocol, spec: Spec, delta: float) -> tuple[Protocol, CoverPlan | None]:
    if not spec.cover:
        return protocol, None
    try:
        found = covered(protocol, delta, CELLS)
        return found, cover_of(found)
    except (ArithmeticError, IncrowdError) as error:
        raise Rejected(Reason.unproven, str(error)) from error


# In the sandbox.


def recompute(request: Request) -> Costs:
    """Recompute an offer, or its start, in a bounded process; blocks until that has ended.

    Without colluders every promise is checked as well.

    Raises:
        Rejected: for what is wrong with the offer, or because it does not end within the bounds.

    """
    ended, answer = _sandbox().call(msgspec.msgpack.encode(request))
    if ended is Ended.time:
        raise Rejected(
            Reason.unproven, f"its guarantee takes more than {CPU_SECONDS} s to recompute"
        )
    if ended is Ended.memory:
        raise Rejected(
            Reason.oversized, f"its guarantee takes more than {MEMORY_BYTES >> 20} MiB to recompute"
        )
    if ended is Ended.failed:
        raise Rejected(Reason.unproven, "its guarantee cannot be recomputed")
    found = msgspec.msgpack.decode(answer, type=tuple[Costs | None, _Refusal | None])
    costs, refusal = found
    if costs is None:
        refusal = refusal or _Refusal(Reason.unproven, "")
        raise Rejected(refusal.reason, refusal.detail)
    return costs


@cache
def _sandbox() -> Sandbox:
    """One for the process, whatever number of devices it hosts."""
    return Sandbox(f"{__name__}:reply")


def close() -> None:
    """End the process that recomputes; the next request starts another one."""
    _sandbox().close()


def warm() -> None:
    """Load what every computation needs, once for all forks of the sandbox."""
    from incrowd.graphs import families
    from incrowd.protocols import PROTOCOLS, load
    from incrowd.protocols.registry import build
    from incrowd.randomizers import KRR
    from incrowd.randomizers.registry import RANDOMIZERS
    from incrowd.tasks.registry import TASKS

    for kind in PROTOCOLS:
        load(kind)
    for registry in (RANDOMIZERS, TASKS):
        registry.load_all()
    # Compiled kernels and parts of scipy are loaded by their first use.
    coin, crowd = KRR(categories=2, epsilon=1.0), families.complete(4)
    for kind in ("trusted-shuffle", "network-shuffle"):
        build(kind, {"n": 4, "rounds": 2}, coin, {"graph": crowd}).guarantee().epsilon(0.1)


def reply(encoded: bytes) -> bytes:
    """Answer a request; runs in the sandbox."""
    request = msgspec.msgpack.decode(encoded, type=Request)
    try:
        return msgspec.msgpack.encode((_costs(request), None))
    except Rejected as error:
        return msgspec.msgpack.encode((None, _Refusal(error.reason, error.detail)))


def _costs(request: Request) -> Costs:
    _, spec = tasks.read_task(request.task)
    built = build(spec, request.graph)
    promises = spec.promises if request.promises is None else request.promises
    _check_views(promises, built.protocol.views)
    if request.people is not None:
        built = subset(built, spec, request.people)
    if not request.colluders:
        return Costs({view_name(each.view): _proven(built.protocol, each) for each in promises})
    return Costs(_collusive(built.protocol, promises, request.colluders))


def _proven(protocol: Protocol, promise: Promise) -> tuple[float, float]:
    """Recompute a promise; one that is below the truth is refused."""
    try:
        proven = protocol.guarantee(promise.view).epsilon(promise.delta)
    except (ArithmeticError, IncrowdError) as error:
        raise Rejected(Reason.unproven, str(error)) from error
    if not proven <= promise.epsilon:
        raise Rejected(
            Reason.unproven,
            f"epsilon {promise.epsilon:.6g} is stated against {promise.view}, but only "
            f"{proven:.6g} is proven",
        )
    return proven, promise.delta


def _collusive(
    protocol: Protocol, promises: Sequence[Promise], colluders: int
) -> dict[str, tuple[float, float]]:
    """Costs towards each view with any such number of people; views without a proof have none."""
    found = {}
    for each in promises:
        try:
            guarantee = guarantee_against_any(protocol, each.view, colluders)
            found[view_name(each.view)] = guarantee.epsilon(each.delta), each.delta
        except (ArithmeticError, IncrowdError):
            # What is not proven is charged as the randomizer alone (``decide``).
            continue
    return found
