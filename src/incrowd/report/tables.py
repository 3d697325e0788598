"""Tables of a result in texts, the same on a terminal, on the page and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from incrowd.report.format import (
    by_error,
    count,
    down,
    percent,
    percent_with_error,
    plain,
    points,
    right_guesses,
    several,
    small,
    up,
    with_error,
)
from incrowd.report.words import NO_PROTECTION, ORDERED, verdict

Data = Mapping[str, Any]

_SHOWN = 3
"""Number of answers that a row of estimates has room for."""


@dataclass(frozen=True)
class TextTable:
    """Rows of texts under the names of their columns; ``words`` numbers the columns of words."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[int] = frozenset({0})


def estimates(data: Data) -> TextTable:
    """Return estimates and limits, rounded by their errors, beside the truth where it is known."""
    interval, truth = data["interval"], data["truth"]
    head = ["answer", "estimate", f"{100 * interval['confidence']:g} % interval"]
    head += [] if truth is None else ["truth", "off by"]
    rows = []
    for index, (each, share) in enumerate(zip(data["result"], data["share"], strict=True)):
        error, value = each["standard_error"], each["estimate"]
        shown = percent if share else by_error
        low, high = (shown(interval[end][index], error) for end in ("low", "high"))
        row = [each["label"], shown(value, error), f"{low.removesuffix(' %')} – {high}"]
        if truth is not None:
            off = value - truth[index]
            sign = "+" if off > 0 else ""
            apart = points(off, error, signed=True) if share else f"{sign}{by_error(off, error)}"
            row += [shown(truth[index], error), apart]
        rows.append(row)
    return TextTable(head, rows)


def questions(described: Sequence[Data]) -> TextTable:
    """Return the plan of several questions: ε0 rounded down, as a setting, and expected errors.

    Where each person answers one of them, the share of people who draw it is told too.
    """
    rows = []
    for each in described:
        error, randomizer = each["expected_error"], each["randomizer"]
        expected = "–" if error is None else f"± {plain(error, 2)}"
        epsilon0 = down(randomizer["epsilon"], 6)
        drawn = [percent(each["chance"], 0.01)] if "chance" in each else []
        rows.append([each["id"], each["kind"], *drawn, randomizer["kind"], epsilon0, expected])
    share = ["drawn by"] if described and "chance" in described[0] else []
    head = ["question", "kind", *share, "randomizer", "ε0", "expected error"]
    left = {0, 1, head.index("randomizer")}
    return TextTable(head, rows, frozenset(left))


def history(data: Data) -> TextTable:
    """Return estimates after some rounds, each ± half of its interval, and the ε of such a plan."""
    labels, rows = data["labels"], []
    for each in data["history"]:
        limits = zip(each["estimate"], each["low"], each["high"], data["share"], strict=True)
        cells = [
            (percent_with_error if share else with_error)(value, (high - low) / 2)
            for value, low, high, share in limits
        ]
        planned = up(each["epsilon_if_planned"])
        rows.append([several(each["rounds"], "round"), planned, *cells[:_SHOWN]])
    more = ["…"] if len(labels) > _SHOWN else []
    head = ["after", "ε if planned so", *labels[:_SHOWN], *more]
    return TextTable(head, [[*row, *[""] * len(more)] for row in rows])


def guarantees(described: Sequence[Data]) -> TextTable:
    """Return guarantees about answers at one δ: ε rounded up, lower bounds down."""
    delta = small(described[0]["delta"])
    head = ["view", "right guesses of 1,000", f"ε at δ = {delta}", "lower bound", "theorem"]
    rows = [
        [
            _view(each),
            _right(each["epsilon"], each["delta"]),
            up(each["epsilon"]),
            down(each["lower_bound"]),
            _theorem(each),
        ]
        for each in described
    ]
    return TextTable(head, rows, frozenset({0, 4}))


def orders(described: Sequence[Data]) -> TextTable:
    """Return guarantees about an order: α rounded up."""
    head = ["view", "right guesses of 1,000", "α", "order of", "inside", "theorem"]
    rows = [
        [
            _view(each),
            _right(each["alpha"], 0.0),
            up(each["alpha"]),
            ORDERED[each["neighbours"]],
            each["groups"] or "every group",
            _theorem(each),
        ]
        for each in described
    ]
    return TextTable(head, rows, frozenset({0, 3, 4, 5}))


def _theorem(guarantee: Data) -> str:
    """Name of a theorem, without the page of its proof, which would break every row."""
    return " ∘ ".join(each.partition(" (")[0] for each in guarantee["theorem"].split(" ∘ "))


def _right(epsilon: float, delta: float) -> str:
    return NO_PROTECTION if verdict(epsilon) else f"≤ {count(right_guesses(epsilon, delta))}"


def _view(guarantee: Data) -> str:
    colluders, view = guarantee["colluders"], str(guarantee["view"])
    return f"{view} + {count(colluders)} colluders" if colluders else view
