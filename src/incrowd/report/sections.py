"""One run as one list of sections, which the page, the terminal and JSON all render.

The sections say what was asked, what came out, what is guaranteed, and how to do it again. The
answer brings its own; guarantees are those of the run, so that no medium can state more than was
proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from incrowd.blocks import HEAD, Block, Fact, Figure, Section, Text, arranged, facts_from, values_of
from incrowd.privacy.guarantee import Guarantee, Notion
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import Anytime, drawing_of, parts_of, run_diagnostics
from incrowd.protocols.joint.roles import MOST
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.run import Run
from incrowd.randomizers.base import FloatArray
from incrowd.report import json, words
from incrowd.report.format import count, plain, points, several, small, up
from incrowd.tasks.base import AnswerContext, Task
from incrowd.tasks.parts import answered
from incrowd.tasks.raw import Gaps, IntArray
from incrowd.views import view_of

_EXPLANATION = "explanation"
_UPPER = ("epsilon", "alpha")
"""Settings that bound something from above."""


@dataclass(frozen=True, eq=False)
class Told:
    """One question of a survey, as a report tells it."""

    id: str
    text: str
    task: Task
    column: str = "answer"
    """The name of what was asked."""
    truth: FloatArray | None = None
    """The answer without protection; known only where everybody's data are at hand."""
    gaps: Gaps | None = None
    """Counts of rows without a usable answer; known where the truth is."""
    true_codes: IntArray | None = None
    """True answers by person, where they are mapped; known where the truth is."""


@dataclass(frozen=True, eq=False)
class Document:
    """A run together with the survey that it answers, as the input of a report."""

    title: str
    """The question, or the title of several."""
    questions: tuple[Told, ...]
    protocol: Protocol
    run: Run
    epsilon: float
    """The ε of the budget."""
    delta: float
    view: str
    solved: bool = False
    """Whether ε0, or what stands for it, was solved for."""
    engine: str = "simulate"
    """The way that it was run, unless live."""
    explain: bool | None = None
    """Whether the plan is shown on terminals and in JSON; none where that cannot be asked."""
    source: str = ""
    """The text of the survey file."""
    command: str = ""

    @cached_property
    def live(self) -> dict[str, Any] | None:
        """Statistics of a live run; none where nothing went over a network."""
        # Asked by name: the module of live runs needs packages that may not be installed.
        statistics = getattr(self.run, "live", None)
        return None if statistics is None else msgspec.to_builtins(statistics)

    @cached_property
    def diagnostics(self) -> tuple[Fact, ...]:
        """Diagnostics of the protocol about the run."""
        came = self.run.collected.parts
        if len(came) == 1:
            return run_diagnostics(self.protocol, *came, self.delta)
        parts = zip(self.questions, parts_of(self.protocol), came, strict=True)
        told = ((each.id, run_diagnostics(part, own, self.delta)) for each, part, own in parts)
        return tuple(replace(x, name=f"{x.name} ({name})") for name, facts in told for x in facts)

    @cached_property
    def budgeted(self) -> Guarantee:
        """The guarantee against the view of the budget."""
        wanted = view_of(self.view)
        stated = (each for each in self.about("dp") if each.view == wanted)
        return next(stated, None) or self.protocol.conditional_on(self.run.collected).guarantee(
            self.view
        )

    @cached_property
    def met(self) -> bool:
        """Whether the run kept the budget."""
        return self.budgeted.epsilon(self.delta) <= self.epsilon

    @cached_property
    def guarantees(self) -> dict[str, Any]:
        """All guarantees of the run as the data of a figure."""
        return {"guarantees": [json.describe_guarantee(x, self.delta) for x in self.run.guarantees]}

    @cached_property
    def refined(self) -> list[dict[str, Any]]:
        """The answer after some of the rounds, and the ε of a run of which no more were planned.

        Numbers are in the order of the result's rows. Empty where a protocol asks only once.
        """
        return [
            {
                "rounds": each.rounds,
                "epsilon_if_planned": each.protocol.guarantee(self.view).epsilon(self.delta),
                "estimate": each.result.value.tolist(),
                "low": each.result.low.tolist(),
                "high": each.result.high.tolist(),
            }
            for each in self.run.refined
        ]

    @property
    def shares(self) -> bool:
        """Whether the first estimates are shares of people, rather than numbers in own units."""
        return self.questions[0].task.shares

    def about(self, notion: Notion) -> list[Guarantee]:
        """Guarantees of one notion."""
        return [each for each in self.run.guarantees if each.notion == notion]


_Told = tuple[str, str, int, Callable[[Document], Iterator[Block]]]
"""Key, title, place and blocks of a section."""


def sections_of(document: Document) -> tuple[Section, ...]:
    """Return the sections of a report about a run."""
    return arranged((*_own(document, _SECTIONS), *_answers(document)))


def answers_of(document: Document) -> tuple[Section, ...]:
    """Return the sections that are known at once, before any guarantee is computed."""
    head = Section(HEAD, document.title, 0, ())
    plan = _own(document, [each for each in _SECTIONS if each[0] == _EXPLANATION])
    return arranged((head, *plan, *(each for each in _answers(document) if each.key != HEAD)))


def _own(document: Document, told: Sequence[_Told]) -> Iterator[Section]:
    for key, title, order, tell in told:
        if blocks := tuple(tell(document)):
            yield Section(key, document.title if key == HEAD else title, order, blocks)


def _answers(document: Document) -> Iterator[Section]:
    """Sections of all answers; of several each is named after its question."""
    run, protocol = document.run, document.protocol
    several_asked = len(document.questions) > 1
    came = answered(run.collected, protocol.randomizer)
    parts = zip(document.questions, run.answers, came, strict=True)
    for number, (asked, answer, (collected, randomizer)) in enumerate(parts):
        context = AnswerContext(
            collected=collected,
            randomizer=randomizer,
            shares=asked.task.shares,
            span=asked.task.scale(answer.people),
            truth=asked.truth,
            # Live, the places of true answers are on the devices, and stay there.
            true_codes=asked.true_codes if document.live is None else None,
            live=document.live is not None,
            column=asked.column,
            geographic=getattr(protocol, "metric", "") == "haversine",
            explained=number > 0,
        )
        for each in answer.sections(context):
            if not several_asked:
                yield each
            elif each.key != HEAD:
                key, order = f"{each.key}-{asked.id}", each.order + number / MOST
                yield replace(each, key=key, title=asked.text, order=order)


def _head(document: Document) -> Iterator[Block]:
    run, protocol, budget = document.run, document.protocol, document.budgeted
    took, answered = "answered", "people_who_answered"
    if run.collected.parts[0].sampled:
        each_round = isinstance(parts_of(protocol)[0], Anytime)
        drawn = "a random crowd of them in each round" if each_round else "drawn one by one"
        took, answered = f"took part, {drawn},", "people_who_were_there"
    yield Text(
        f"{count(run.people)} people {took} through the {protocol.kind} protocol: "
        f"{plugin_of(protocol).summary.removesuffix('.')}. "
        f"{words.randomized(protocol.randomizer)}"
    )
    if document.met:
        yield Text("The budget was kept.", "good")
    else:
        yield Text("The budget was not kept: fewer reports arrived than planned.", "bad")
    rows = sum(len(each.labels) for each in run.answers)
    yield Fact(answered, run.people, note=f"{several(rows, 'number')} estimated")
    yield Fact(
        f"guarantee against {words.view_title(budget.view)}",
        budget.epsilon(document.delta),
        bound="up",
        unit="ε",
        note=f"at δ = {small(document.delta)}; the budget was {small(document.epsilon)}",
    )
    for each in document.about("order"):
        if each.view == budget.view:
            yield Fact("guarantee about who said what", each.alpha, "up", "α", "inside each group")


def _data(document: Document) -> Iterator[Block]:
    """Facts for programs and lists, which the page tells in sentences."""
    live, protocol = document.live, document.protocol
    parameters = json.describe_parameters(protocol)
    budget = {name: getattr(document, name) for name in ("epsilon", "delta", "view", "met")}
    spent = {"epsilon": document.budgeted.epsilon(document.delta), "delta": document.delta}
    yield Fact("title", document.title)
    numbers = range(len(document.questions))
    yield Fact("questions", [_question(document, number) for number in numbers])
    yield Fact("history", document.refined)
    yield Fact("people", document.run.people, note=protocol.randomizer.treatment())
    yield Fact("spent", facts_from(spent | {"view": document.view}, _UPPER))
    yield Fact("solved", json.describe_solved(protocol, document.solved))
    yield Fact("budget", facts_from(budget, _UPPER))
    yield Fact("parameters", facts_from(parameters, _UPPER))
    yield Fact("engine", document.engine if live is None else "live")


def _question(document: Document, number: int) -> dict[str, Any]:
    """One question and its answer as plain data."""
    asked, answer = document.questions[number], document.run.answers[number]
    gaps = None if asked.gaps is None or document.live else asdict(asked.gaps)
    return {
        "id": asked.id,
        "kind": asked.task.kind,
        "text": asked.text,
        "people": answer.people,
        "confidence": answer.confidence,
        "rows": answer.records(asked.truth),
        "missing": answer.missing,
        "gaps": gaps,
    }


def _explanation(document: Document) -> Iterator[Block]:
    """The plan for terminals and programs."""
    if document.explain is not None:
        drawn = drawing_of(document.protocol) if document.explain else None
        plan = {"text": drawn.text, "explanation": list(drawn.told)} if drawn else None
        yield Figure("explanation", {"plan": plan})


def _plan(document: Document) -> Iterator[Block]:
    if drawn := drawing_of(document.protocol):
        yield Figure("plan", {"svg": drawn.svg}, " ".join(drawn.told), "Who sends to whom.")
        yield from (Text(each, "item") for each in drawn.told)


def _history(document: Document) -> Iterator[Block]:
    """Answers that became sharper; nothing where it was asked for once."""
    run, shares, refined = document.run, document.shares, document.refined
    if len(refined) <= 1:
        return
    errors = [each.result.largest_error(shares=shares) for each in run.refined]
    typical = [points(x, x) if shares else plain(x, 2) for x in errors]
    told = "; ".join(
        f"{several(each['rounds'], 'round')} with a standard error of {error}"
        for each, error in zip(refined, typical, strict=True)
    )
    yield Text(
        "Every round asked a fresh random crowd. Each made the answer sharper and the guarantee "
        "weaker, which is why the budget ends the survey. The ε beside each answer is that of a "
        "survey of which no more rounds had been planned. A survey that is stopped there "
        "after a look at an answer has the guarantee that was planned."
    )
    yield Figure(
        "history",
        {
            "history": refined,
            "labels": run.result.labels,
            "share": run.result.share(shares=shares),
            "errors": typical,
            "against": words.view_title(view_of(document.view)),
        },
        alt=f"Estimates after some of the rounds: {told}",
        caption=f"The largest estimates, with the {100 * run.result.confidence:g} % interval of "
        "each as a band. The axis of rounds is logarithmic.",
    )


def _unprotected(document: Document) -> Iterator[Block]:
    """Who could learn what, before any guarantee; then words for poor ones."""
    own = values_of(document.diagnostics).get("unprotected", "")
    stated = plugin_of(document.protocol).stated_views
    clear = [x for each in document.questions for x in each.task.clear_columns(each.column)]
    described = document.guarantees["guarantees"]
    yield Text(words.unprotected(described, stated, own, clear), "notice")
    budget = document.budgeted
    poor = words.cautions(
        budget.epsilon(document.delta),
        document.delta,
        document.run.people,
        words.view_title(budget.view),
    )
    yield from (Text(each, "notice") for each in poor)


def _guarantees(document: Document) -> Iterator[Block]:
    delta, budget = document.delta, document.budgeted
    yield Text(words.guarantee_meaning(budget, delta))
    yield Text(
        f"In every row {words.neighbours(budget)} The lower bound is an ε that an attack really "
        "attains: the truth lies between it and the proven ε. All are at δ = "
        f"{small(delta)}, the failure probability."
    )
    caption = "One row for each set of parties who pool what they see"
    yield Figure("guarantees", document.guarantees, caption=caption)


def _orders(document: Document) -> Iterator[Block]:
    """The guarantee about the order inside groups; nothing where there is none."""
    about, own = document.about("order"), values_of(document.diagnostics)
    if "shuffled" in own:
        yield Text(words.order_meaning(None, "", own))
    elif about:
        first, lone = about[0], ""
        if people := own["people_alone"]:
            lone = (
                f" {count(people)} of them were alone in their groups: which report is theirs is "
                "not hidden."
            )
        stated = json.describe_guarantee(first, document.delta)
        yield Text(words.order_meaning(stated, words.view_title(first.view), own))
        yield Text(
            f"Groups are {first.groups or 'as the protocol says'}; {words.neighbours(first)} It "
            "holds on top of ε, and needs no δ. There were "
            f"{count(document.run.people)} people.{lone}"
        )
        yield Figure("orders", document.guarantees, caption="The order")


def _profile(document: Document) -> Iterator[Block]:
    proven, delta = document.about("dp"), document.delta
    told = "; ".join(f"{words.view_title(x.view)} ε = {up(x.epsilon(delta))}" for x in proven)
    yield Text(
        "A guarantee is a curve, not one number: the smaller the failure probability δ, the larger "
        "the ε. Lines are proven; the truth cannot lie above them. Triangles are attained by an "
        "attack; the truth cannot lie below them. Each line has a triangle of its own where an "
        "attack is known."
    )
    yield Figure(
        "profile",
        {"proven": proven, "delta": delta},
        f"Proven epsilon against delta by view. At delta {small(delta)}: {told}.",
        "Both axes are logarithmic.",
    )


def _assumptions(document: Document) -> Iterator[Block]:
    yield Text("Each guarantee holds when all of these are true, whatever else anybody knows.")
    for each in document.run.guarantees:
        of_order = "The order, against" if each.notion == "order" else "Against"
        yield Text(f"{of_order} {words.view_title(each.view)}", "heading")
        for assumption in each.assumptions or ("nothing beyond the randomizer itself",):
            yield Text(assumption, "item")
        yield Text(f"Proof: {each.theorem}", "small")


def _cost(document: Document) -> Iterator[Block]:
    run, arrived = document.run, document.run.collected
    task = document.questions[0].task
    described = json.describe_cost(run.cost, task, document.protocol, run.people)
    yield Fact("cost", facts_from(described))
    if measured := json.describe_measured(run):
        yield Fact("measured_cost", facts_from(measured))
    yield Fact("reports", facts_from({"sent": arrived.sent, "received": arrived.received}))
    yield Fact("diagnostics", document.diagnostics)


def _live(document: Document) -> Iterator[Block]:
    if document.live is not None:
        yield Text(
            "Every person was a device of its own, with its own keys and its own randomness. What "
            "two of them said to each other travelled in sealed cells of one size, which nobody in "
            "between could open."
        )
        yield Fact("live", facts_from(document.live))


def _again(document: Document) -> Iterator[Block]:
    if document.live is None:
        unset = "none was set"
        yield Text(
            "The same seed, versions and data give the same numbers. A seed is for simulations "
            "only: what protects a real person must not be repeatable."
        )
    else:
        unset = "none: a live device refuses one"
        yield Text(
            "This asks the same again, and the numbers will differ: every device draws fresh "
            "randomness, because what protects a person must not be repeatable."
        )
    if document.command:
        yield Text(document.command, "code")
    yield Fact("seed", document.run.seed, note=unset)
    yield Fact("versions", facts_from(json.describe_versions()))
    if document.source:
        yield Text(document.source.strip(), "code")


_SECTIONS: tuple[_Told, ...] = (
    (HEAD, "", 0, _head),
    ("data", "", 1, _data),
    (_EXPLANATION, "", 5, _explanation),
    ("plan", "The plan", 30, _plan),
    ("history", "Round by round", 40, _history),
    ("unprotected", "What is not protected", 45, _unprotected),
    ("guarantees", "The guarantee of each person", 50, _guarantees),
    ("orders", "The guarantee about who said what", 60, _orders),
    ("profile", "The whole guarantee", 70, _profile),
    ("assumptions", "What the guarantee rests on", 80, _assumptions),
    ("cost", "What it cost", 90, _cost),
    ("live", "How it ran", 100, _live),
    ("again", "How to do it again", 110, _again),
)
"""Key, title, place and blocks of each section; the title of the head is the question."""
