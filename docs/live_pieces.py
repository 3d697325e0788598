"""The generated pieces about live surveys: what travels, what is refused, what a hub offers.

All of it is read off the code that runs: sizes from the layout of cells, frames and routes from the
tables that answer, meanings from what stands below each name.
"""

from __future__ import annotations

import ast
import inspect
import re
import struct
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import msgspec
from pieces import DELTA, ROOT, first_line, piece, table

import incrowd as ic
from incrowd.live import cells, frames, policy, task
from incrowd.live.accounting import CELLS
from incrowd.live.curator import timing_of
from incrowd.live.hub.board import STATES
from incrowd.live.hub.limits import Limits
from incrowd.live.hub.metrics import Metrics
from incrowd.live.hub.routes import ROUTES
from incrowd.live.reasons import Reason
from incrowd.protocols.api import VIEWS
from incrowd.protocols.runtime.actor import device
from incrowd.report.format import count, plain, up

_KINDS = {"B": "whole number", "I": "whole number", "Q": "whole number", "s": "bytes"}
_MEANINGS = {
    "version": "of this format",
    "kind": "data, or a comparison of starts",
    "survey": "which one",
    "sender": "number of the party; people from 0, helpers from the top",
    "recipient": "number of the party",
    "round": "when it was sealed, by the public clock",
    "session": "a name of the key, made from the wrapped one",
    "counter": "of cells in this session; session and counter name the cell",
    "wrapped": "the session's key, sealed to the recipient and signed by the sender",
}


def told_below(kind: Any) -> dict[str, str]:
    """What stands below each field of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    found: dict[str, str] = {}
    name = ""
    for node in getattr(body, "body", []):
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name = getattr(target, "id", "")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name], name = " ".join(str(node.value.value).split()), ""
    return found


@piece
def live_reasons() -> str:
    """Every reason to refuse something."""
    told = told_below(Reason)
    return table(("reason", "meaning"), [(f"`{each}`", told[each.name]) for each in Reason])


@piece
def policy_keys() -> str:
    """Every key of a policy."""
    tables = {
        "[budget]": policy.Allowance,
        "[budget] per_day": policy.PerDay,
        "[crowd]": policy.CrowdRule,
        "[consent]": policy.Consent,
        "[[curator]]": policy.CuratorRule,
        "[column.NAME]": policy.ColumnRule,
        "[column.NAME.coarse.NAME]": policy.Coarsening,
        "[network]": policy.NetworkRule,
    }
    rows = [
        (
            f"`{title}`",
            f"`{each.name}`",
            "yes" if each.required else "no",
            told_below(kind)[each.name].replace("``", "`"),
        )
        for title, kind in tables.items()
        for each in msgspec.structs.fields(kind)
    ]
    return table(("table", "key", "required", "meaning"), rows)


@piece
def live_cell() -> str:
    """The layout of a cell."""
    parts = re.findall(r"(\d*)([a-zA-Z])", cells._FIELDS.format)
    names = ("version", *cells.Header.__struct_fields__)
    rows = [
        (f"`{name}`", str(struct.calcsize(f">{size}{code}")), _KINDS[code], _MEANINGS[name])
        for name, (size, code) in zip(names, parts, strict=True)
    ]
    inside = f"{cells.CAPACITY} bytes of records, sealed, and a tag of {cells.TAG}"
    rows.append(("sealed", str(cells.CELL - cells.HEADER), "bytes", inside))
    rows.append(("together", str(cells.CELL), "", ""))
    return table(("part", "bytes", "kind", "meaning"), rows)


@piece
def live_frames() -> str:
    """Every frame between a party and the hub."""
    rows = []
    for way, union in (("to the hub", frames.FromParty), ("from the hub", frames.FromHub)):
        for kind in get_args(union):
            held = ", ".join(f"`{name}`" for name in kind.__struct_fields__) or "–"
            tag = kind.__struct_config__.tag
            rows.append((f"`{tag}`", way, held, first_line(kind)))
    return table(("frame", "direction", "holds", "meaning"), rows)


@piece
def live_limits_of_frames() -> str:
    """How long things may be."""
    return (
        f"A frame has at most {count(frames.MOST_CELLS)} cells, a message at most "
        f"{count(cells.MESSAGE_LIMIT)} bytes, a task {count(task.SPEC_LIMIT)}."
    )


@piece
def live_routes() -> str:
    """Every route of the hub."""
    rows = [(f"`{each.method}`", f"`{each.path}`", each.summary) for each in ROUTES]
    return table(("method", "path", "what it does"), rows)


@piece
def live_requests() -> str:
    """Fields that each route takes and gives, and how it refuses."""

    def told(*types: type[msgspec.Struct] | str | None) -> str:
        fields = [
            f"`{name}`"
            for each in types
            if each is not None
            for name in ([each] if isinstance(each, str) else each.__struct_fields__)
        ]
        return ", ".join(fields) or "–"

    rows = [
        (
            f"`{each.method} {each.path}`",
            told(each.query, each.takes),
            told(each.gives),
            ", ".join(map(str, each.statuses)),
        )
        for each in ROUTES
    ]
    return table(("request", "takes", "gives", "statuses of a refusal"), rows)


@piece
def live_metrics() -> str:
    """Every metric of the hub, as it presents itself."""
    text = Metrics(["/"]).render(dict.fromkeys(STATES, 0))
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    labels: dict[str, str] = {}
    for name, label in re.findall(r'^(\w+)\{(\w+(?:="[^"]*",\w+)*)=', text, re.M):
        found = [each for each in re.findall(r"(\w+)(?:=|$)", label) if each != "le"]
        labels.setdefault(name, ", ".join(f"`{each}`" for each in found))
    rows = [
        (f"`{name}`", kinds[name], labels.get(name) or "–", meaning)
        for name, meaning in re.findall(r"^# HELP (\S+) (.+)$", text, re.M)
    ]
    return table(("name", "kind", "labels", "meaning"), rows)


@piece
def live_limits() -> str:
    """What a hub takes at most."""
    told = told_below(Limits)
    rows = [(told[name], _number(value)) for name, value in _defaults(Limits)]
    return table(("limit", "default"), rows)


def _defaults(kind: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in inspect.signature(kind).parameters.items():
        yield name, parameter.default


def _number(value: float) -> str:
    return count(int(value)) if float(value).is_integer() else plain(value, 3)


@piece
@cache
def live_cover() -> str:
    """What cover buys and costs, for the example."""
    survey = ic.survey.load(ROOT / "examples" / "live.toml")
    bare = survey.protocol
    covered = bare.covered(DELTA, CELLS)
    plan = covered.cover
    ticks = plan.ticks(device(0), timing_of(survey.live))
    cells_sent = sum(sum(tick.cells.values()) for tick in ticks)
    rows = [
        (
            f"ε against `{view}`",
            *(up(each.guarantee(view).epsilon(DELTA)) for each in (bare, covered)),
        )
        for view in VIEWS
    ]
    messages = msgspec.structs.asdict(bare.cost())["messages_per_person"]
    size = cells.CELL
    rows.append(("cells per device, about", count(round(messages)), count(cells_sent)))
    rows.append(
        ("bytes per device, about", count(round(messages) * size), count(cells_sent * size))
    )
    return table(("", "without cover", "with cover"), rows)
