"""The figures of the report, as SVG that takes its colours from the page around it.

matplotlib draws; it is an optional dependency and is imported on use. Figures are drawn in the
light colours of the page, which are then replaced by the custom properties of its style sheet, so
that one figure serves light, dark and print. Text stays text: it can be selected, searched and
read aloud. Nothing global is touched: no pyplot, and settings only within a context.

A curve δ(ε) is evaluated at few ε around the one that a run has already stated: to solve it for
some δ instead would take ten times as long, and minutes where one point takes seconds.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import NumericalFloor
from incrowd.extras import needed_extra
from incrowd.privacy.guarantee import Guarantee
from incrowd.report import maps
from incrowd.report.drawing import COLOURS, GRID, INK, MUTED, SERIES, TRUTH, literal
from incrowd.report.format import count, plain
from incrowd.report.json import lower_bound
from incrowd.report.words import view_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Data = Mapping[str, Any]
Curve = tuple[tuple[float, float], ...]

MOST_ROWS = 40
"""Number of labels that a figure shows; the largest ones, when there are more."""

_LONG = 40
"""Letters of a name beside which no second one fits."""
_LONGEST = 70
"""Letters of a line of a legend."""
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)))
_TRIANGLES = ("^", "v", "<", ">")
"""Looks of several series beside their colours, which not everybody tells apart."""
_AROUND_KNOWN = (0.25, 0.5, 0.75, 1.25, 1.6)
"""Where a curve is evaluated, in units of the ε that is known."""
_LEAST_DELTA = 1e-14
_LEAST_SPAN = 3.0
"""Least ratio of the ends of the axis of a curve."""
_SURPLUS = re.compile(r"(\.\d\d)\d+")
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "incrowd",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "xtick.minor.visible": False,
}


def require_matplotlib() -> None:
    """Raise unless matplotlib can be imported."""
    with needed_extra("figures of reports need", "run with --no-report"):
        import matplotlib  # noqa: F401


def svg(kind: str, data: Data) -> str | None:
    """Return the drawing of a figure of this kind; none of unknown kinds."""
    if kind == "plan":
        return str(data["svg"])
    if kind not in _DRAWN:
        return None
    require_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        return _element(figure(kind, data), _DRAWN[kind][0])


def figure(kind: str, data: Data) -> Figure:
    """Return a figure of a known kind, to be shown or saved."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    _, height, draw = _DRAWN[kind]
    with mpl.rc_context(_SETTINGS):
        made = Figure(figsize=(6.2, height(data)), layout="constrained")
        draw(made, data)
        return made


def _estimates(axes: Axes, data: Data) -> None:
    """Draw the estimates with their confidence limits, beside the truth where it is known."""
    shares, rows = all(data["share"]), _rows(data)
    scale, places = 100 ** int(shares), np.arange(len(rows))
    names, values = zip(*((row["label"], row["estimate"]) for row in data["result"]), strict=True)
    limits = (values, data["interval"]["low"], data["interval"]["high"])
    value, low, high = (scale * np.asarray(each)[rows] for each in limits)
    if shares:
        axes.barh(places, value, height=0.62, color=SERIES[0], alpha=0.35)
    axes.errorbar(
        value, places, xerr=[value - low, high - value], fmt="o", color=SERIES[0],
        markersize=5.5, elinewidth=1.8, capsize=4, label="estimate",
    )  # fmt: skip
    if data["truth"] is not None:
        axes.plot(
            scale * np.asarray(data["truth"])[rows], places, linestyle="none", marker="|",
            markersize=17, markeredgewidth=2.2, color=TRUTH, label="truth",
        )  # fmt: skip
    axes.set_yticks(places, [literal(names[row]) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda tick, _: plain(tick, 6))
    axes.set_xlabel("share of people, %" if shares else "in the units of the answer")
    axes.grid(visible=True, axis="x", color=GRID, linewidth=0.8)
    axes.tick_params(axis="y", length=0, labelsize=11)
    if data["truth"] is not None:
        # matplotlib puts error bars last; the estimate comes first.
        handles, labels = axes.get_legend_handles_labels()
        _legend(axes, handles[::-1], labels[::-1])


def _rows(data: Data) -> NDArray[np.int64]:
    """Return the rows of the estimates to show, in their order."""
    largest = _largest([row["estimate"] for row in data["result"]], data["share"])
    return np.sort(largest[:MOST_ROWS])


def _largest(values: Sequence[float], share: Sequence[bool]) -> NDArray[np.int64]:
    """Return the rows that one axis can show, the largest first."""
    # Beside a mean or a sum, the share of missing answers has another unit.
    among = np.flatnonzero([each == all(share) for each in share])
    return among[np.argsort(-np.asarray(values)[among], kind="stable")]


def _history(axes: Axes, data: Data) -> None:
    """Draw the largest estimates after some of the rounds, with confidence limits as bands."""
    shares, refined = all(data["share"]), data["history"]
    rounds = [each["rounds"] for each in refined]
    largest = _largest(refined[-1]["estimate"], data["share"])
    for colour, marker, row in zip(SERIES, _MARKERS, largest, strict=False):
        value, low, high = (
            100 ** int(shares) * np.array([each[limit][row] for each in refined])
            for limit in ("estimate", "low", "high")
        )
        axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            rounds, value, color=colour, linewidth=2.0, marker=marker, markersize=5,
            label=literal(data["labels"][row]),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(rounds, [count(each) for each in rounds])
    axes.minorticks_off()
    axes.set_xlabel("rounds")
    axes.yaxis.set_major_formatter(lambda tick, _: plain(tick, 6))
    axes.set_ylabel("share of people, %" if shares else "in the units of the answer")
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    _legend(axes, *axes.get_legend_handles_labels())


def _profile(axes: Axes, data: Data) -> None:
    """Draw ε against δ for each view, beside lower bounds and the δ of the budget."""
    curves: dict[Curve, list[Guarantee]] = {}
    for each in data["proven"]:
        if curve := _curve(each, data["delta"]):
            curves.setdefault(curve, []).append(each)
    entries: dict[str, list[Any]] = {}
    looks = zip(cycle(SERIES), cycle(_DASHES), cycle(_TRIANGLES), curves.items(), strict=False)
    for colour, dashes, triangle, (curve, same) in looks:
        drawn = axes.plot(*zip(*curve, strict=True), color=colour, linestyle=dashes, linewidth=2.2)
        if attack := lower_bound(same[0], data["delta"]):
            drawn += axes.plot(
                [data["delta"]], [attack], color=colour, linestyle="none", marker=triangle,
                markersize=8,
            )  # fmt: skip
        entries["; ".join(view_title(each.view) for each in same)] = drawn
    axes.axvline(data["delta"], color=MUTED, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    # On a few parts in a thousand, every tick would be labelled alike.
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, high / _LEAST_SPAN), max(high, low * _LEAST_SPAN))
    axes.yaxis.set_major_formatter(lambda tick, _: plain(tick))
    axes.yaxis.set_minor_formatter(lambda tick, _: plain(tick) if _leads(tick) else "")
    axes.set_xlabel("δ (dotted: the δ of this report)")
    axes.set_ylabel("ε: smaller is more private")
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    _legend(axes, [tuple(each) for each in entries.values()], list(entries))


def _curve(guarantee: Guarantee, delta: float) -> Curve:
    """Return some points (δ, ε) about the one at this δ, which the result has stated already."""
    try:
        known = guarantee.epsilon(delta)
    except NumericalFloor:
        return ()
    if not 0 < known < np.inf:
        return ()
    most = guarantee.profile.greatest_loss
    if known >= most:  # a pure ε, whatever the δ
        return tuple((each, known) for each in (_LEAST_DELTA**0.5, delta, delta**0.5))
    found = [(delta, known)]
    for epsilon in (factor * known for factor in _AROUND_KNOWN):
        if epsilon < most:
            with suppress(NumericalFloor):
                found.append((guarantee.delta(epsilon), epsilon))
    return tuple(sorted(each for each in found if _LEAST_DELTA < each[0] < 0.5))


def _leads(tick: float) -> bool:
    """Return whether a minor tick of a logarithmic axis starts with 2 or 5, enough to label."""
    return bool(tick > 0 and round(tick / 10 ** np.floor(np.log10(tick))) in (2, 5))


def _alone(draw: Callable[[Axes, Data], None]) -> Callable[[Figure, Data], None]:
    """Return the drawing of a figure that has one pair of axes."""
    return lambda whole, data: draw(whole.add_subplot(), data)


_DRAWN: Mapping[str, tuple[str, Callable[[Data], float], Callable[[Figure, Data], None]]] = {
    "estimates": ("answer", lambda data: 0.9 + 0.42 * len(_rows(data)), _alone(_estimates)),
    "history": ("history", lambda _: 3.6, _alone(_history)),
    "map": ("map", maps.height, maps.draw),
    "profile": ("profile", lambda data: 3.4 + 0.2 * len(data["proven"]), _alone(_profile)),
}
"""Prefix of the ids, height in inches and drawing of each kind."""


def _legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw a legend above the axes, where there is a series."""
    from matplotlib.legend_handler import HandlerTuple

    if labels:
        whole: Any = axes.figure
        whole.legend(
            handles, [textwrap.fill(each, _LONGEST) for each in labels], loc="outside upper left",
            ncols=1 if max(map(len, labels)) > _LONG else 2, frameon=False, fontsize=9.5,
            handler_map={tuple: HandlerTuple(ndivide=None)}, handlelength=3.5,
        )  # fmt: skip


def _element(drawn: Figure, name: str) -> str:
    """Return the figure as an SVG element that stands inside a page."""
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # matplotlib's own style sheet would reach the whole page, and its ids would clash.
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    # The page scales the figure and names its fonts.
    text = re.sub(r'^<svg[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', text)
    # A hundredth of a point is finer than any screen or printer.
    text = re.sub(r'\b(d|x|y)="[^"]*"', lambda each: _SURPLUS.sub(r"\1", each[0]), text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    return text
