"""One run as one page: what was asked, what came out, what was promised, how to do it again.

The page is a single file without scripts or requests: figures are inline, and it reads the same on
paper, in the dark, and aloud. Every number stands beside a sentence that says what it means. What
is promised comes from the run's own guarantees, so the page cannot promise more than was proven.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from incrowd.errors import FileUnreadable
from incrowd.privacy.guarantee import Guarantee, Notion, view_of
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import Anytime
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.run import Run
from incrowd.randomizers import Redirect
from incrowd.randomizers.base import FloatArray
from incrowd.report.answer import answer_section
from incrowd.report.describe import (
    describe_live,
    describe_measured,
    describe_versions,
    lower_bound,
)
from incrowd.report.figures import (
    profile_figure,
    refined_figure,
    rows_in_one_unit,
)
from incrowd.report.format import count, down, guess, percent, plain, round_up, several, small, up
from incrowd.report.parts import definitions, figure, section, table
from incrowd.report.query import plan_section
from incrowd.report.release import map_section
from incrowd.report.style import STYLE
from incrowd.report.words import (
    ORDERED,
    facts,
    live_facts,
    neighbours,
    order_promise,
    promise,
    treatment,
    view_title,
    view_who,
)
from incrowd.tasks.base import Answer
from incrowd.tasks.query import QueryAnswer

__all__ = ["Document", "render", "require_writable", "write"]


@dataclass(frozen=True, eq=False)
class Document:
    """What the page tells."""

    question: str
    protocol: Protocol
    run: Run
    epsilon: float
    """The ε of the budget."""
    delta: float
    view: str
    met: bool
    """Whether the run kept the budget."""
    shares: bool
    """Whether the estimates are shares of people, rather than numbers in units of their own."""
    truth: FloatArray | None = None
    """The answer without protection; known only where everybody's data are at hand."""
    source: str = ""
    """The text of the survey file."""
    command: str = ""

    @cached_property
    def details(self) -> dict[str, Any]:
        """What the protocol alone has to say of the run."""
        return self.protocol.run_diagnostics(self.run.collected, self.delta)


def require_writable(path: Path, what: str = "report") -> None:
    """Raise unless it could be written there; to be asked before a long run, not after."""
    folder = path.absolute().parent
    if path.is_dir():
        problem = "it is a folder; name a file"
    elif not folder.is_dir():
        problem = f"there is no folder {folder}; create it first"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        problem = "permission denied"
    else:
        return
    raise FileUnreadable(f"{path}: cannot write the {what}: {problem}")


def write(document: Document, path: Path) -> Path:
    """Write the page; raises when the file cannot be written."""
    page = render(document)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot write the report: {error.strerror}") from error
    return path


def render(document: Document) -> str:
    """The whole page."""
    parts = (
        answer_section(document.run, document.truth, shares=document.shares),
        map_section(document.run.result, document.protocol),
        plan_section(document.protocol),
        _refined(document),
        _promises(document),
        _orders(document),
        _profile(document),
        _assumptions(document),
        _cost(document),
        _live(document),
        _reproduce(document),
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.question)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"{_header(document)}\n<main>\n{chr(10).join(filter(None, parts))}\n</main>\n"
        "<footer><p>Made by incrowd. Promises are proven bounds, rounded up; nothing on this page "
        "is fetched from elsewhere.</p></footer>\n</body>\n</html>\n"
    )


def _header(document: Document) -> str:
    answer, protocol = document.run.result, document.protocol
    budget = _budgeted(document)
    sampled = document.run.collected.sampled
    tiles = (
        (
            "People who were there" if sampled else "People who answered",
            count(answer.people),
            f"{several(len(answer.labels), 'number')} estimated",
        ),
        (
            f"Promise against {view_title(budget.view)}",
            f"ε = {up(budget.epsilon(document.delta))}",
            f"at δ = {small(document.delta)}; the budget was {document.epsilon:g}",
        ),
        *(
            ("Promise about who said what", f"α = {up(each.alpha)}", "inside each group")
            for each in _about(document, "order")
            if each.view == budget.view
        ),
        _precision(document),
    )
    took = "answered"
    if sampled:
        each_round = isinstance(protocol, Anytime)
        drawn = "a random crowd of them in each round" if each_round else "drawn one by one"
        took = f"took part, {drawn},"
    made = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(big)}</dd>'
        f"<dd>{escape(small)}</dd></div>"
        for name, big, small in tiles
    )
    kept = (
        '<span class="met">The budget was kept.</span>'
        if document.met
        else '<span class="unmet">The budget was not kept: fewer reports arrived than planned.'
        "</span>"
    )
    return (
        '<header><p class="eyebrow">A private survey</p>'
        f"<h1>{escape(document.question)}</h1>"
        f'<p class="lede">{count(answer.people)} people {took} through the '
        f"<b>{escape(protocol.kind)}</b> protocol: "
        f"{escape(_sentence(plugin_of(protocol).summary))} "
        f"{_randomized(protocol)} "
        f'{kept}</p><dl class="tiles">{made}</dl></header>'
    )


def _randomized(protocol: Protocol) -> str:
    """What was done to each answer before it left a device."""
    if isinstance(protocol.randomizer, Redirect):
        told = treatment({"kind": "redirect", "sampling": protocol.randomizer.sampling})
        return f"{escape(told[:1].upper() + told[1:])}."
    return (
        "Each answer was randomized on the person’s own device by "
        f"<b>{escape(protocol.randomizer.kind)}</b> with ε0 = {up(protocol.randomizer.epsilon)}."
    )


def _largest_error(answer: Answer, shares: bool) -> float:
    """The largest standard error of the rows that have one unit."""
    errors: list[float] = answer.standard_error[rows_in_one_unit(answer, shares=shares)].tolist()
    return max(errors)


def _precision(document: Document) -> tuple[str, str, str]:
    """How much the answer can be relied on, as a tile."""
    answer = document.run.result
    if isinstance(answer, QueryAnswer):
        collected = document.run.collected
        if any(getattr(collected, "noise", ())):
            return "Tuples behind the answer", "not told", "the result has noise"
        fewest = count(min(collected.crowds))
        return "Tuples behind the answer", fewest, f"or more, of {count(answer.people)} people"
    error = _largest_error(answer, document.shares)
    typical = f"± {plain(100 * error, 2)} points" if document.shares else f"± {plain(error, 3)}"
    luck = " and the luck of who was in" if document.run.collected.sampled else " alone"
    return "Typical error", typical, f"one standard error, from the noise{luck}"


def _refined(document: Document) -> str:
    """How the answer became sharper; nothing where it was asked for once."""
    refined = document.run.refined
    if len(refined) < 2:
        return ""

    def typical(error: float) -> str:
        return f"{plain(100 * error, 2)} points" if document.shares else plain(error, 3)

    rows = [
        [
            several(each.rounds, "round"),
            up(each.protocol.guarantee(document.view).epsilon(document.delta)),
            typical(_largest_error(each.result, document.shares)),
        ]
        for each in refined
    ]
    return section(
        "Round by round",
        "<p>Every round asked a fresh random crowd. Each made the answer sharper and the promise "
        "weaker, which is why the budget ends the survey. The ε beside each answer is that of a "
        "survey of which no more rounds had been planned. A survey that is stopped there, by "
        "anybody who has seen an answer, promises what was planned.</p>"
        + figure(
            refined_figure(refined, shares=document.shares),
            "Estimates after some of the rounds: "
            + "; ".join(f"{row[0]} with a standard error of {row[2]}" for row in rows),
            f"The largest estimates, with the {document.run.result.confidence:.0%} interval of "
            "each as a band. The axis of rounds is logarithmic.",
        )
        + table(
            [
                "",
                f"ε if planned so, against {view_title(view_of(document.view))}",
                "largest standard error",
            ],
            rows,
            "The same in numbers",
        ),
    )


def _promises(document: Document) -> str:
    delta = document.delta
    rows = []
    for guarantee in _about(document, "dp"):
        epsilon = guarantee.epsilon(delta)
        rows.append(
            [
                _who(guarantee),
                up(epsilon),
                down(lower_bound(guarantee, delta)),
                percent(round_up(guess(epsilon, delta), 3)),
            ]
        )
    head = ["who looks", "ε (proven)", "best known attack", "guess right, at most"]
    budget = _budgeted(document)
    return section(
        "What each person was promised",
        f"<p>{escape(promise(budget, delta))}</p>"
        f"<p>In every row {escape(neighbours(budget))} The best known attack is an ε that "
        "somebody really attains: the truth lies between it and the proven ε. All are at "
        f"δ = {small(delta)}, the slack of the promise.</p>"
        + table(head, rows, caption="One row for each set of parties who pool what they see"),
    )


def _orders(document: Document) -> str:
    """What was promised about the order inside groups; nothing where nothing was."""
    about, own = _about(document, "order"), document.details
    title = "What was promised about who said what"
    if "shuffled" in own:
        return section(title, f"<p>{escape(order_promise(own, '', ''))}</p>")
    if not about:
        return ""
    first, people = about[0], own["people_alone"]
    told = order_promise({"alpha": first.alpha}, first.neighbours, view_title(first.view))
    lone = (
        f" {count(people)} of them had nobody else in their groups: nothing is promised of which "
        "report is theirs."
        if people
        else ""
    )
    rows = [
        [
            _who(each),
            up(each.alpha),
            ORDERED[each.neighbours],
            percent(round_up(guess(each.alpha, 0.0), 3)),
        ]
        for each in about
    ]
    head = ["who looks", "α (proven)", "hidden is the order of", "guess right, at most"]
    drawn = table(head, rows, caption="The order")
    return section(
        title,
        f"<p>{escape(told)}</p>"
        f"<p>Groups are {escape(first.groups or 'as the protocol says')}; "
        f"{escape(neighbours(first))} It holds on top of ε, and needs no δ. There were "
        f"{count(document.run.result.people)} people.{escape(lone)}</p>" + drawn,
    )


def _profile(document: Document) -> str:
    told = "; ".join(
        f"{view_title(each.view)} ε = {up(each.epsilon(document.delta))}"
        for each in _about(document, "dp")
    )
    return section(
        "The whole promise",
        "<p>A promise is a curve, not one number: the smaller the slack δ that is allowed, the "
        "larger the ε that can be promised. Full lines are proven; the truth cannot lie above "
        "them. Dashed lines are attained by an attack; the truth cannot lie below them.</p>"
        + figure(
            profile_figure(_about(document, "dp"), document.delta),
            f"Proven epsilon against delta by view. At delta {small(document.delta)}: {told}.",
            "Both axes are logarithmic.",
        ),
    )


def _assumptions(document: Document) -> str:
    listed = []
    for guarantee in document.run.guarantees:
        items = "".join(f"<li>{escape(each)}</li>" for each in guarantee.assumptions)
        of_order = "The order, against" if guarantee.notion == "order" else "Against"
        listed.append(
            f"<h3>{of_order} {escape(view_title(guarantee.view))}</h3>"
            f"<ul>{items or '<li>nothing beyond the randomizer itself</li>'}</ul>"
            f'<p class="muted small">Proof: {escape(guarantee.theorem)}</p>'
        )
    return section(
        "What the promise rests on",
        "<p>Each promise holds when all of these are true, whatever else anybody knows.</p>"
        + "".join(listed),
    )


def _cost(document: Document) -> str:
    cost, collected = document.run.cost, document.run.collected
    measured = describe_measured(document.run)
    own = document.details
    told = [
        ("Rounds", count(cost.rounds), "or steps, that the protocol took"),
        ("Messages", count(cost.messages_per_person), "sent by each person, as planned"),
        (
            "Bytes",
            count(cost.bytes_per_person),
            "sent by each person, as planned, before encryption",
        ),
        *(
            [
                (
                    "Messages, measured",
                    count(measured["messages_per_person"]),
                    "sent by each person in this run, retries included",
                ),
                (
                    "Bytes, measured",
                    count(measured["bytes_per_person"]),
                    "sent by each person in this run, retries included",
                ),
            ]
            if measured
            else []
        ),
        ("Helpers", count(cost.extra_people), "needed beside the people who answer"),
        (
            "Reports",
            f"{count(collected.received)} of {count(collected.sent)}",
            "arrived; the promise above counts only those that did",
        ),
        *((_capital(name), value, "") for name, value in facts(own)),
    ]
    return section("What it cost", definitions(told))


def _live(document: Document) -> str:
    """How a run over a network went; nothing where there was none."""
    live = describe_live(document.run)
    if live is None:
        return ""
    return section(
        "How it ran",
        "<p>Every person was a device of its own, with its own keys and its own randomness. What "
        "two of them said to each other travelled in sealed cells of one size, which nobody in "
        "between could open.</p>"
        + definitions((_capital(name), value, "") for name, value in live_facts(live)),
    )


def _reproduce(document: Document) -> str:
    run = document.run
    versions = ", ".join(f"{name} {version}" for name, version in describe_versions().items())
    command = f"<pre>{escape(document.command)}</pre>" if document.command else ""
    source = f"<pre>{escape(document.source.strip())}</pre>" if document.source else ""
    if describe_live(run) is None:
        told = (
            "The same seed, versions and data give the same numbers. A seed is for simulations "
            "only: what protects a real person must not be repeatable."
        )
        seed = "none was set" if run.seed is None else str(run.seed)
    else:
        told = (
            "This asks the same again, and the numbers will differ: every device draws fresh "
            "randomness, because what protects a person must not be repeatable."
        )
        seed = "none: a live device refuses one"
    return section(
        "How to do it again",
        f"<p>{told}</p>"
        + command
        + definitions([("Seed", seed, ""), ("Versions", versions, "")])
        + source,
    )


def _budgeted(document: Document) -> Guarantee:
    """The guarantee of the view that the budget speaks of."""
    wanted = view_of(document.view)
    for each in _about(document, "dp"):
        if each.view == wanted:
            return each
    return document.protocol.conditional_on(document.run.collected).guarantee(document.view)


def _about(document: Document, notion: Notion) -> list[Guarantee]:
    """What was promised of one kind."""
    return [each for each in document.run.guarantees if each.notion == notion]


def _who(guarantee: Guarantee) -> tuple[str, str]:
    return view_title(guarantee.view), view_who(guarantee.view)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
