"""One run as one list of sections, which the page, the terminal and JSON all render.

The sections say what was asked, what came out, what was promised, and how to do it again. The
answer brings its own; promises come from the run's own guarantees, so that no medium can promise
more than was proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from incrowd.blocks import HEAD, Fact, Figure, Section, Text, arranged, values_of
from incrowd.privacy.guarantee import Guarantee, Notion
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import Anytime, drawing_of, run_diagnostics
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.run import Run
from incrowd.randomizers.base import FloatArray
from incrowd.report.format import count, plain, several, small, up
from incrowd.report.json import (
    describe_cost,
    describe_guarantee,
    describe_live,
    describe_measured,
    describe_parameters,
    describe_refined,
    describe_versions,
)
from incrowd.report.words import (
    neighbours,
    order_promise,
    promise,
    randomized,
    view_title,
)
from incrowd.tasks.base import AnswerContext, Task
from incrowd.tasks.raw import Gaps
from incrowd.views import view_of

_BOUNDS = ("epsilon", "exposure", "alpha")
_SIZES = "_sizes"


@dataclass(frozen=True, eq=False)
class Document:
    """A run and what it was meant to be, to be told."""

    question: str
    task: Task
    protocol: Protocol
    run: Run
    epsilon: float
    """The ε of the budget."""
    delta: float
    view: str
    met: bool
    """Whether the run kept the budget."""
    column: str = "answer"
    """The name of what was asked."""
    truth: FloatArray | None = None
    """The answer without protection; known only where everybody's data are at hand."""
    gaps: Gaps | None = None
    """Counts of rows without a usable answer; known where the truth is."""
    mode: str = "simulate"
    """The way that it was run, unless live."""
    explain: bool | None = None
    """Whether the plan is told to whoever reads no page; none where that cannot be asked."""
    source: str = ""
    """The text of the survey file."""
    command: str = ""

    @cached_property
    def live(self) -> dict[str, Any] | None:
        """Statistics of a live run; none where nothing went over a network."""
        return describe_live(self.run)

    @cached_property
    def details(self) -> tuple[Fact, ...]:
        """Facts of the run that the protocol alone has to tell."""
        return run_diagnostics(self.protocol, self.run.collected, self.delta)

    @cached_property
    def budgeted(self) -> Guarantee:
        """The guarantee of the view that the budget speaks of."""
        wanted = view_of(self.view)
        for each in self.about("dp"):
            if each.view == wanted:
                return each
        return self.protocol.conditional_on(self.run.collected).guarantee(self.view)

    @property
    def shares(self) -> bool:
        """Whether the estimates are shares of people, rather than numbers in their own units."""
        return self.task.domain == "category"

    def about(self, notion: Notion) -> list[Guarantee]:
        """Guarantees of one kind."""
        return [each for each in self.run.guarantees if each.notion == notion]


def facts_of(values: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Facts from plain data with telling names, as protocols have it.

    Numbers whose names end in a bound are promises; lists whose names end in sizes count things.
    """
    return tuple(
        Fact(
            str(name),
            facts_of(value) if isinstance(value, Mapping) else _listed(value),
            bound="up" if name.endswith(_BOUNDS) else None,
            unit=name.removesuffix(_SIZES) if name.endswith(_SIZES) else "",
        )
        for name, value in values.items()
    )


def _listed(value: Any) -> Any:
    # A tuple in a fact is a group of facts.
    return list(value) if isinstance(value, tuple) else value


def sections_of(document: Document) -> tuple[Section, ...]:
    """Everything that there is to tell of a run."""
    run = document.run
    context = AnswerContext(
        collected=run.collected,
        randomizer=document.protocol.randomizer,
        shares=document.shares,
        truth=document.truth,
        live=document.live is not None,
        column=document.column,
        geographic=getattr(document.protocol, "metric", "") == "haversine",
    )
    return arranged(
        (
            _question(document),
            _data(document),
            *_plan(document),
            _history(document),
            _promises(document),
            *_orders(document),
            _profile(document),
            _assumptions(document),
            _cost(document),
            *_live(document),
            _again(document),
            *run.result.sections(context),
        )
    )


def _question(document: Document) -> Section:
    answer, protocol, budget = document.run.result, document.protocol, document.budgeted
    sampled = document.run.collected.sampled
    took = "answered"
    if sampled:
        each_round = isinstance(protocol, Anytime)
        drawn = "a random crowd of them in each round" if each_round else "drawn one by one"
        took = f"took part, {drawn},"
    lede = (
        f"{count(answer.people)} people {took} through the {protocol.kind} protocol: "
        f"{plugin_of(protocol).summary.removesuffix('.')}. "
        f"{randomized(protocol.randomizer)}"
    )
    return Section(
        HEAD,
        document.question,
        0,
        (
            Text(lede),
            Text("The budget was kept.", "good")
            if document.met
            else Text("The budget was not kept: fewer reports arrived than planned.", "bad"),
            Fact(
                "people_who_were_there" if sampled else "people_who_answered",
                answer.people,
                note=f"{several(len(answer.labels), 'number')} estimated",
            ),
            Fact(
                f"promise against {view_title(budget.view)}",
                budget.epsilon(document.delta),
                bound="up",
                unit="ε",
                note=f"at δ = {small(document.delta)}; the budget was {document.epsilon:g}",
            ),
            *(
                Fact("promise about who said what", each.alpha, "up", "α", "inside each group")
                for each in document.about("order")
                if each.view == budget.view
            ),
        ),
    )


def _data(document: Document) -> Section:
    """Facts for programs and lists, which the page tells in sentences."""
    run, live = document.run, document.live
    parameters = describe_parameters(document.protocol)
    budget = {
        "epsilon": document.epsilon,
        "delta": document.delta,
        "view": document.view,
        "met": document.met,
    }
    gaps = None if document.gaps is None or live else facts_of(asdict(document.gaps))
    return Section(
        "data",
        "",
        1,
        (
            Fact("question", document.question),
            Fact("missing", run.result.missing),
            Fact("gaps", gaps),
            Fact("people", run.result.people, note=document.protocol.randomizer.treatment()),
            Fact("budget", facts_of(budget)),
            Fact("parameters", facts_of(parameters)),
            Fact("mode", document.mode if live is None else "live"),
        ),
    )


def _plan(document: Document) -> tuple[Section, ...]:
    """The plan of who sends to whom; nothing where there is none to draw."""
    drawn = drawing_of(document.protocol)
    found = []
    if document.explain is not None:
        told = {"text": drawn.text, "explanation": list(drawn.told)} if drawn else None
        plan = {"plan": told if document.explain else None}
        found.append(Section("explanation", "", 5, (Figure("explanation", plan),)))
    if drawn is not None:
        shown = Figure("plan", {"svg": drawn.svg}, " ".join(drawn.told), "Who sends to whom.")
        items = (Text(each, "item") for each in drawn.told)
        found.append(Section("plan", "The plan", 30, (shown, *items)))
    return tuple(found)


def _history(document: Document) -> Section:
    """Answers that became sharper; no chapter where it was asked for once."""
    run, shares = document.run, document.shares
    refined = describe_refined(run, document.delta, document.view)
    errors = [each.result.largest_error(shares=shares) for each in run.refined]
    typical = [f"{plain(100 * x, 2)} points" if shares else plain(x, 3) for x in errors]
    told = "; ".join(
        f"{several(each['rounds'], 'round')} with a standard error of {error}"
        for each, error in zip(refined, typical, strict=True)
    )
    return Section(
        "history",
        "Round by round" if len(refined) > 1 else "",
        40,
        (
            Text(
                "Every round asked a fresh random crowd. Each made the answer sharper and the "
                "promise weaker, which is why the budget ends the survey. The ε beside each answer "
                "is that of a survey of which no more rounds had been planned. A survey that is "
                "stopped there, by anybody who has seen an answer, promises what was planned."
            ),
            Figure(
                "history",
                {
                    "refined": refined,
                    "labels": run.result.labels,
                    "share": run.result.share(shares=shares),
                    "errors": typical,
                    "against": view_title(view_of(document.view)),
                },
                alt=f"Estimates after some of the rounds: {told}",
                caption=f"The largest estimates, with the {run.result.confidence:.0%} interval of "
                "each as a band. The axis of rounds is logarithmic.",
            ),
        ),
    )


def _promises(document: Document) -> Section:
    delta, budget = document.delta, document.budgeted
    described = [describe_guarantee(each, delta) for each in document.run.guarantees]
    return Section(
        "promises",
        "What each person was promised",
        50,
        (
            Text(promise(budget, delta)),
            Text(
                f"In every row {neighbours(budget)} The best known attack is an ε that somebody "
                "really attains: the truth lies between it and the proven ε. All are at "
                f"δ = {small(delta)}, the slack of the promise."
            ),
            Figure(
                "promises",
                {"guarantees": described},
                caption="One row for each set of parties who pool what they see",
            ),
        ),
    )


def _orders(document: Document) -> tuple[Section, ...]:
    """The promise about the order inside groups; nothing where there is none."""
    about, own = document.about("order"), values_of(document.details)
    if "shuffled" in own:
        shown: tuple[Text | Figure, ...] = (Text(order_promise(own, "", "")),)
    elif about:
        first, people = about[0], own["people_alone"]
        lone = (
            f" {count(people)} of them had nobody else in their groups: nothing is promised of "
            "which report is theirs."
            if people
            else ""
        )
        described = [describe_guarantee(each, document.delta) for each in about]
        shown = (
            Text(order_promise({"alpha": first.alpha}, first.neighbours, view_title(first.view))),
            Text(
                f"Groups are {first.groups or 'as the protocol says'}; {neighbours(first)} It "
                "holds on top of ε, and needs no δ. There were "
                f"{count(document.run.result.people)} people.{lone}"
            ),
            Figure("orders", {"orders": described}, caption="The order"),
        )
    else:
        return ()
    return (Section("orders", "What was promised about who said what", 60, shown),)


def _profile(document: Document) -> Section:
    promised, delta = document.about("dp"), document.delta
    told = "; ".join(f"{view_title(x.view)} ε = {up(x.epsilon(delta))}" for x in promised)
    return Section(
        "profile",
        "The whole promise",
        70,
        (
            Text(
                "A promise is a curve, not one number: the smaller the slack δ that is allowed, "
                "the larger the ε that can be promised. Full lines are proven; the truth cannot "
                "lie above them. Dashed lines are attained by an attack; the truth cannot lie "
                "below them."
            ),
            Figure(
                "profile",
                {"promised": promised, "delta": delta},
                f"Proven epsilon against delta by view. At delta {small(delta)}: {told}.",
                "Both axes are logarithmic.",
            ),
        ),
    )


def _assumptions(document: Document) -> Section:
    listed: list[Text] = []
    for each in document.run.guarantees:
        of_order = "The order, against" if each.notion == "order" else "Against"
        rests = each.assumptions or ("nothing beyond the randomizer itself",)
        listed += [
            Text(f"{of_order} {view_title(each.view)}", "heading"),
            *(Text(assumption, "item") for assumption in rests),
            Text(f"Proof: {each.theorem}", "small"),
        ]
    told = "Each promise holds when all of these are true, whatever else anybody knows."
    return Section("assumptions", "What the promise rests on", 80, (Text(told), *listed))


def _cost(document: Document) -> Section:
    run = document.run
    measured = describe_measured(run)
    return Section(
        "cost",
        "What it cost",
        90,
        (
            Fact("cost", facts_of(describe_cost(run.cost, document.task, run.result.people))),
            *([Fact("measured", facts_of(measured))] if measured else []),
            Fact(
                "reports",
                (Fact("sent", run.collected.sent), Fact("received", run.collected.received)),
            ),
            Fact("details", document.details),
        ),
    )


def _live(document: Document) -> tuple[Section, ...]:
    """The course of a run over a network; nothing where there was none."""
    if document.live is None:
        return ()
    told = (
        "Every person was a device of its own, with its own keys and its own randomness. What two "
        "of them said to each other travelled in sealed cells of one size, which nobody in between "
        "could open."
    )
    return (
        Section("live", "How it ran", 100, (Text(told), Fact("live", facts_of(document.live)))),
    )


def _again(document: Document) -> Section:
    if document.live is None:
        told, unset = (
            "The same seed, versions and data give the same numbers. A seed is for simulations "
            "only: what protects a real person must not be repeatable.",
            "none was set",
        )
    else:
        told, unset = (
            "This asks the same again, and the numbers will differ: every device draws fresh "
            "randomness, because what protects a person must not be repeatable.",
            "none: a live device refuses one",
        )
    return Section(
        "again",
        "How to do it again",
        110,
        (
            Text(told),
            *([Text(document.command, "code")] if document.command else []),
            Fact("seed", document.run.seed, note=unset),
            Fact("versions", facts_of(describe_versions())),
            *([Text(document.source.strip(), "code")] if document.source else []),
        ),
    )
