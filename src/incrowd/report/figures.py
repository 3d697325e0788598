"""The figures of the report, as SVG that takes its colours from the page around it.

matplotlib draws; it is an optional dependency and is imported on use. Figures are drawn in marker
colours, which are then replaced by the custom properties of the page's style sheet, so that one
figure serves light, dark and print. Text stays text: it can be selected, searched and read aloud.
Nothing global is touched: no pyplot, and settings only within a context.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import MissingExtra, NumericalFloor
from incrowd.privacy.guarantee import Guarantee
from incrowd.report.format import count, plain
from incrowd.report.json import lower_bound
from incrowd.report.words import view_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from incrowd.randomizers.base import FloatArray

MOST_ROWS = 40
"""How many labels a figure shows; the largest ones, when there are more."""

_INK, _MUTED, _GRID, _TRUTH = "#010101", "#020202", "#030303", "#040404"
_SERIES = ("#050505", "#060606", "#070707", "#080808")
_PROPERTIES = {
    _INK: "var(--ink)",
    _MUTED: "var(--muted)",
    _GRID: "var(--line)",
    _TRUTH: "var(--truth)",
} | {marker: f"var(--series-{index})" for index, marker in enumerate(_SERIES, 1)}
_LONG = 40
"""Letters of a name beside which no second one fits."""
_MOST_DOTS = 4000
"""How many rows of a table a map shows; evenly spaced ones, when there are more."""
_DELTAS = np.logspace(-12, -2, 11)


def require_matplotlib() -> None:
    """Raise unless matplotlib can be imported."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "reports draw figures with matplotlib, which is not installed: "
            "pip install 'incrowd[plot]', or run with --no-report"
        ) from error


def svg(kind: str, data: Mapping[str, Any]) -> str | None:
    """The drawing of a figure of this kind; none where it is not known how to draw it."""
    return _DRAWN[kind](data) if kind in _DRAWN else None


def _answer(data: Mapping[str, Any]) -> str:
    """The estimates with their confidence limits, beside the truth where it is known."""
    shares, truth = all(data["share"]), data["truth"]
    names = [row["label"] for row in data["result"]]
    estimates = np.array([row["estimate"] for row in data["result"]])
    among = _in_one_unit(data["share"])
    rows = np.sort(among[np.argsort(-estimates[among], kind="stable")[:MOST_ROWS]])
    labels = np.asarray(names)[rows]
    limits = (estimates, data["interval"]["low"], data["interval"]["high"])
    value, low, high = (100 ** int(shares) * np.asarray(each)[rows] for each in limits)
    places = np.arange(len(labels))
    with _canvas(height=0.9 + 0.42 * len(labels)) as (figure, axes):
        if shares:
            axes.barh(places, value, height=0.62, color=_SERIES[0], alpha=0.35)
        axes.errorbar(
            value, places, xerr=[value - low, high - value], fmt="o", color=_SERIES[0],
            markersize=5.5, elinewidth=1.8, capsize=4, label="estimate",
        )  # fmt: skip
        if truth is not None:
            axes.plot(
                100 ** int(shares) * np.asarray(truth)[rows], places, linestyle="none", marker="|",
                markersize=17, markeredgewidth=2.2, color=_TRUTH, label="truth",
            )  # fmt: skip
        axes.set_yticks(places, [_escaped(label) for label in labels])
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.set_xlabel("share of people, %" if shares else "mean")
        axes.grid(visible=True, axis="x", color=_GRID, linewidth=0.8)
        axes.tick_params(axis="y", length=0, labelsize=11)
        _legend(axes, figure)
        return _svg(figure, "answer")


def _in_one_unit(share: Sequence[bool]) -> NDArray[np.int64]:
    """The rows that one axis can show: beside a mean or a sum, the share missing is another."""
    return np.flatnonzero([each == all(share) for each in share])


def _history(data: Mapping[str, Any]) -> str:
    """The largest estimates after some of the rounds, with their confidence limits as bands."""
    shares, refined, labels = all(data["share"]), data["refined"], data["labels"]
    last = np.array(refined[-1]["estimate"])
    rounds = [each["rounds"] for each in refined]
    with _canvas(height=3.6) as (figure, axes):
        among = _in_one_unit(data["share"])
        largest = among[np.argsort(-last[among], kind="stable")]
        for marker, row in zip(_SERIES, largest, strict=False):
            value, low, high = (
                100 ** int(shares) * np.array([each[limit][row] for each in refined])
                for limit in ("estimate", "low", "high")
            )
            axes.fill_between(rounds, low, high, color=marker, alpha=0.15, linewidth=0)
            label = _escaped(labels[row])
            axes.plot(
                rounds, value, color=marker, linewidth=2.0, marker="o", markersize=4, label=label
            )
        axes.set_xscale("log")
        axes.set_xticks(rounds, [count(each) for each in rounds])
        axes.minorticks_off()
        axes.set_xlabel("rounds")
        axes.set_ylabel("share of people, %" if shares else "mean")
        axes.grid(visible=True, axis="y", color=_GRID, linewidth=0.8)
        _legend(axes, figure)
        return _svg(figure, "refined")


def _profile(data: Mapping[str, Any]) -> str:
    """ε against δ for each view, with the best known attack beside it and the δ of the budget."""
    guarantees, delta = data["proven"], data["delta"]
    with _canvas(height=3.9) as (figure, axes):
        for marker, (curve, who) in zip(_SERIES, _curves(guarantees).items(), strict=False):
            name = "; ".join(view_title(each.view) for each in who)
            axes.plot(*zip(*curve, strict=True), color=marker, linewidth=2.2, label=name)
            attack = [(d, e) for d in _DELTAS if (e := lower_bound(who[0], d))]
            if attack:
                axes.plot(
                    *zip(*attack, strict=True), color=_INK, linewidth=1.3, linestyle=(0, (2, 2)),
                    label=f"best known attack by {view_title(who[0].view)}",
                )  # fmt: skip
        axes.axvline(delta, color=_MUTED, linewidth=1, linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda tick, _: plain(tick))
        axes.yaxis.set_minor_formatter(lambda tick, _: plain(tick) if _leads(tick) else "")
        axes.set_xlabel("δ (dotted: the δ of this report)")
        axes.set_ylabel("ε: smaller is more private")
        axes.grid(visible=True, color=_GRID, linewidth=0.8)
        _legend(axes, figure)
        return _svg(figure, "profile")


def _map(data: Mapping[str, Any]) -> str:
    """The table as dots where its rows are, and then a map of the share of each category.

    ``shares`` has the estimated share of a category at each point of ``grid``: the darker, the
    larger, from none to the largest. ``stretch`` is how much longer one unit up is than one to the
    right.
    """
    shares, grid = data["shares"], data["grid"]
    # Latitude and longitude, or two numbers in this order.
    up, right = data["points"].T
    panels = 1 + len(shares)
    columns = 2 if panels == 4 else min(3, panels)
    rows = -(-panels // columns)
    every = max(1, -(-len(up) // _MOST_DOTS))
    with _canvas(height=8.2 / columns * rows) as (figure, whole):
        whole.remove()
        drawn = [figure.add_subplot(rows, columns, place + 1) for place in range(panels)]
        for marker, name in zip(_SERIES, shares, strict=False):
            here = np.flatnonzero(data["names"][::every] == name) * every
            drawn[0].scatter(right[here], up[here], s=4, color=marker, linewidths=0, alpha=0.8)
        for marker, name, panel in zip(_SERIES, shares, drawn[1:], strict=False):
            share: Any = np.clip(shares[name], 0, None)
            most = max(float(share.max()), 1e-9)
            panel.scatter(
                grid[:, 1], grid[:, 0], s=30, marker="s", linewidths=0, color=marker,
                alpha=share / most,
            )  # fmt: skip
            panel.set_title(f"{_escaped(name)}, up to {100 * min(most, 1):.0f} %", fontsize=10)
        drawn[0].set_title("the table", fontsize=10)
        for panel in drawn:
            panel.set(xticks=[], yticks=[], xlim=_around(right), ylim=_around(up))
            panel.set_aspect(data["stretch"])
        return _svg(figure, "map")


_DRAWN: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "estimates": _answer,
    "history": _history,
    "map": _map,
    "plan": lambda data: str(data["svg"]),
    "profile": _profile,
}


def _around(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin


def _escaped(name: str) -> str:
    """A name in which matplotlib sees no formula."""
    return str(name).replace("$", r"\$")


Curve = tuple[tuple[float, float], ...]


def _curves(guarantees: Sequence[Guarantee]) -> dict[Curve, list[Guarantee]]:
    """The curves (δ, ε), each with the guarantees that share it; empty ones are left out."""
    found: dict[Curve, list[Guarantee]] = {}
    for each in guarantees:
        curve = tuple((d, e) for d in _DELTAS.tolist() if (e := _epsilon(each, d)) is not None)
        if curve:
            found.setdefault(curve, []).append(each)
    return found


def _epsilon(guarantee: Guarantee, delta: float) -> float | None:
    """A point of the curve; none where double precision cannot certify one."""
    try:
        epsilon = guarantee.epsilon(delta)
    except NumericalFloor:
        return None
    return epsilon if 0 < epsilon < np.inf else None


def _leads(tick: float) -> bool:
    """Whether a minor tick of a logarithmic axis starts with 2 or 5, enough to label."""
    return bool(tick > 0 and round(tick / 10 ** np.floor(np.log10(tick))) in (2, 5))


@contextmanager
def _canvas(height: float) -> Iterator[tuple[Figure, Axes]]:
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "incrowd",
        "font.family": "sans-serif",
        "font.size": 10.5,
        "text.color": _INK,
        "axes.labelcolor": _MUTED,
        "axes.edgecolor": _GRID,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "xtick.color": _MUTED,
        "ytick.color": _INK,
        "xtick.minor.visible": False,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(7.6, height), layout="constrained")
        yield figure, figure.add_subplot()


def _legend(axes: Axes, figure: Figure) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if "estimate" in labels:  # matplotlib puts error bars last; the estimate is what comes first.
        handles, labels = handles[::-1], labels[::-1]
    if len(labels) > 1:
        columns = 1 if max(map(len, labels)) > _LONG else 2
        figure.legend(
            handles, labels, loc="outside upper left", ncols=columns, frameon=False, fontsize=9.5
        )


def _svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element that stands inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # matplotlib's own style sheet would reach the whole page, and its ids would clash.
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    # The page scales the figure and names its fonts.
    text = re.sub(r'^<svg[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    for marker, variable in _PROPERTIES.items():
        text = text.replace(marker, variable)
    return text
