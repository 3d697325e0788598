"""Plans as pictures: stages from left to right, row by row, with an arrow for every cluster.

Plain SVG, without scripts or fonts of its own, so that it can stand in a page or in a file. It
contains the plan as text too, for screen readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from incrowd.protocols.scrambled_query.plan.text import counted, drawn_as_text

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.plan.model import Cluster, Plan, Stage

_WIDE, _HIGH, _GAP, _APART = 152, 78, 96, 18
_MARGIN, _PER_ROW, _BETWEEN = 28, 6, 56
_COLOURS = {
    "source": ("#e8effa", "#1f5fbf"),
    "scrambler": ("#f0eaf8", "#6b4fa0"),
    "compute": ("#fbeee6", "#b4471b"),
    "simple": ("#eeeeec", "#5d6470"),
    "result": ("#e6f4ec", "#1d7a4c"),
}
_HIDDEN, _FIXED, _INK, _MUTED = "#6b4fa0", "#9aa1ad", "#1d2129", "#5d6470"
_REMARKS = {"source": "one tuple each", "compute": "read tuples in the clear"}
_LEGEND = (
    (_HIDDEN, "", "depends on data, hidden by the routing"),
    (_FIXED, "5 4", "depends on no data"),
)


@dataclass(frozen=True)
class _Box:
    """The place of a stage, or, without one, of an arrow that passes between others."""

    stage: Stage | None
    x: float
    y: float
    row: int

    @property
    def middle(self) -> float:
        return self.y + _HIGH / 2


def drawn_as_svg(plan: Plan) -> str:
    """Draw the plan as SVG."""
    columns = _columns(plan)
    boxes, height = _placed(columns)
    width = max(*(box.x + _WIDE + _MARGIN for box in boxes.values()), 640.0)
    legend = height + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {legend + 24:g}" '
        f'width="{width:g}" height="{legend + 24:g}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif">',
        "<title>Execution plan</title>",
        f"<desc>{escape(drawn_as_text(plan))}</desc>",
        "<defs>",
        *(_head(name, colour) for name, colour in (("hidden", _HIDDEN), ("fixed", _FIXED))),
        "</defs>",
        '<rect width="100%" height="100%" rx="14" fill="#fbfaf8" stroke="#e4e2dd"/>',
    ]
    drawn = [_arrows(cluster, boxes, columns) for cluster in plan.clusters]
    parts += [line for lines, _ in drawn for line in lines]
    parts += [_drawn_box(box.stage, box) for box in boxes.values() if box.stage is not None]
    parts += [label for _, label in drawn]
    return "\n".join([*parts, *_drawn_legend(legend), "</svg>"]) + "\n"


def _stops(cluster: Cluster) -> list[str]:
    return [cluster.senders, *filter(None, (cluster.through,)), cluster.targets]


def _columns(plan: Plan) -> list[dict[str, Stage | None]]:
    """Stages that stand above one another, scramblers between those they serve."""
    found: list[dict[str, Stage | None]] = []
    for rank in plan.ranks:
        found.append({stage.name: stage for stage in rank})
        names = [each.through for stage in rank for each in plan.leaving(stage.name)]
        if between := {name: plan.stage(name) for name in names if name}:
            found.append({**between})
    where = {name: at for at, column in enumerate(found) for name in column}
    # A cluster that skips a column has a place there for its arrow, under its own name.
    for cluster in plan.clusters:
        for start, end in pairwise(_stops(cluster)):
            for at in range(where[start] + 1, where[end]):
                found[at][_passing(cluster, at)] = None
    return found


def _passing(cluster: Cluster, column: int) -> str:
    """The name of a place of an arrow, which is no name of a stage."""
    return f"\0{column} {cluster.name}"


def _placed(columns: list[dict[str, Stage | None]]) -> tuple[dict[str, _Box], float]:
    boxes: dict[str, _Box] = {}
    top = float(_MARGIN)
    rows = [columns[start : start + _PER_ROW] for start in range(0, len(columns), _PER_ROW)]
    for number, row in enumerate(rows):
        tallest = max(len(column) for column in row)
        tall = tallest * _HIGH + (tallest - 1) * _APART
        for place, column in enumerate(row):
            own = len(column) * _HIGH + (len(column) - 1) * _APART
            for index, (name, stage) in enumerate(column.items()):
                x = _MARGIN + place * (_WIDE + _GAP)
                y = top + (tall - own) / 2 + index * (_HIGH + _APART)
                boxes[name] = _Box(stage, x, y, number)
        top += tall + _BETWEEN
    return boxes, top - _BETWEEN


def _head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    )


def _arrows(
    cluster: Cluster, boxes: dict[str, _Box], columns: Sequence[Iterable[str]]
) -> tuple[list[str], str]:
    """The lines of a cluster, and its name on the last of them."""
    passed = [_passing(cluster, at) for at in range(len(columns))]
    passed = [name for name in passed if name in boxes]
    lines: list[str] = []
    last, target = boxes[cluster.senders], boxes[cluster.targets]
    for start, end in pairwise(_stops(cluster)):
        stroke = f'"{_FIXED}" stroke-width="1.6" stroke-dasharray="5 4" marker-end="url(#fixed)"'
        if cluster.tells and end == cluster.targets:
            stroke = f'"{_HIDDEN}" stroke-width="2.4" marker-end="url(#hidden)"'
        begin, finish = boxes[start], boxes[end]
        way = [begin]
        if begin.row == finish.row:
            way += [boxes[name] for name in passed if begin.x < boxes[name].x < finish.x]
        curve = "".join(_curve(*pair) for pair in pairwise([*way, finish]))
        lines.append(f'<path d="{curve}" fill="none" stroke={stroke}/>')
        last = way[-1]
    if last.row == target.row:
        x, y = (last.x + _WIDE + target.x) / 2, (last.middle + target.middle) / 2 - 7
    else:
        x, y = _MARGIN + _WIDE + _GAP / 2, _turn(target) - 6
    colour = _HIDDEN if cluster.tells else _MUTED
    label = (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="11" fill="{colour}" '
        f'stroke="#fbfaf8" stroke-width="4" paint-order="stroke">{escape(cluster.name)}</text>'
    )
    return lines, label


def _turn(end: _Box) -> float:
    """The height at which an arrow to the next row comes back."""
    return end.y - _BETWEEN / 2


def _curve(start: _Box, end: _Box) -> str:
    x0, y0, y1 = start.x + _WIDE, start.middle, end.middle
    x1 = end.x - (0 if end.stage is None else 2)
    if start.row == end.row:
        bend = max(30.0, (x1 - x0) / 2)
        # An arrow that only passes begins where the one before it ended, and goes straight on.
        first = f"M{x0:g} {y0:g}" if start.stage is not None else f"H{x0:g}"
        return f"{first}C{x0 + bend:g} {y0:g} {x1 - bend:g} {y1:g} {x1:g} {y1:g}"
    turn, out, back = _turn(end), x0 + 14, end.x - 16
    return f"M{x0:g} {y0:g}H{out:g}V{turn:g}H{back:g}V{y1:g}H{x1:g}"


def _drawn_box(stage: Stage, box: _Box) -> str:
    fill, line = _COLOURS[stage.kind]
    nodes = "" if stage.kind == "result" else counted(stage)
    noise = f"add noise, ε = {stage.release:.3g}" if stage.release else ""
    shown = [stage.name, *filter(None, (nodes, _REMARKS.get(stage.kind), noise))]
    top = box.middle - 8 * (len(shown) - 1) + 4.5
    styles = [(13, 600, _INK)] + [(11, 400, _MUTED)] * 3
    words = "".join(
        f'<text x="{box.x + _WIDE / 2:g}" y="{top + 16 * index:g}" text-anchor="middle" '
        f'font-size="{size}" font-weight="{weight}" fill="{ink}">{escape(text)}</text>'
        for index, (text, (size, weight, ink)) in enumerate(zip(shown, styles, strict=False))
    )
    return (
        f'<g><rect x="{box.x:g}" y="{box.y:g}" width="{_WIDE}" height="{_HIGH}" rx="10" '
        f'fill="{fill}" stroke="{line}" stroke-width="1.4"/>{words}</g>'
    )


def _drawn_legend(y: float) -> list[str]:
    found, x = [], float(_MARGIN)
    for colour, dash, words in _LEGEND:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        found.append(
            f'<path d="M{x:g} {y:g}h34" stroke="{colour}" stroke-width="2.2"{dashed}/>'
            f'<text x="{x + 42:g}" y="{y + 4:g}" font-size="11" fill="{_MUTED}">{words}</text>'
        )
        x += 60 + 6.2 * len(words)
    return found
