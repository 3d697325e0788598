"""``incrowd config check``: what a survey file would do and promise, without asking anybody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from incrowd import survey as surveys
from incrowd.blocks import Fact, values_of
from incrowd.cli.outcome import warn_alone
from incrowd.cli.output import Format, FormatOption, emit, progress
from incrowd.live.options import LiveOptions
from incrowd.protocols.capabilities import prospective
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.run import guarantees
from incrowd.report.format import count, down, plain, small
from incrowd.report.json import describe_cost, describe_guarantee, describe_parameters
from incrowd.report.terminal import facts_table, print_guarantees
from incrowd.report.words import lines, said, settings

if TYPE_CHECKING:
    from rich.console import Console

_PROMISED = ("alpha", "order_neighbours", "order_proof", "order_assuming")
"""What a protocol says of its promise about an order, which is in a table already."""

app = typer.Typer(help="Check survey files.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Check survey files."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A survey file.")],
    format: FormatOption = Format.table,
) -> None:
    """Say what a survey would do and promise; run nothing."""
    with progress() as say:
        survey = surveys.load(file, progress=say)
        say("computing the promises")
        protocol = prospective(survey.protocol, survey.task.encode(survey.values))
        budget = survey.budget
        own = protocol.diagnostics(budget.delta, protocol.guarantee(budget.view))
        payload: dict[str, Any] = {
            "survey": str(file),
            "question": survey.question.text,
            "people": len(survey.values),
            "budget": msgspec.to_builtins(budget),
            "local_epsilon": {"value": survey.randomizer.epsilon, "solved": survey.only.solved},
            "parameters": describe_parameters(protocol),
            "guarantees": [describe_guarantee(each, budget.delta) for each in guarantees(protocol)],
            "particulars": values_of(own),
            "cost": describe_cost(protocol.cost(), survey.task, protocol.n),
            "helpers": list(protocol.helpers),
            "live": msgspec.to_builtins(survey.live),
        }

    def render(console: Console) -> None:
        origin = "solved from the budget" if survey.only.solved else "as given"
        solved = ("ε0", f"{down(survey.randomizer.epsilon, 6)}, {origin}")
        if survey.task.kind == "query":
            solved = ("how", f"sampling, sources and dummies {origin}")
        error = payload["cost"]["expected_error"]
        # The people and the randomizer have lines of their own.
        apart = ("protocol", "n", "randomizer")
        planned = {name: x for name, x in payload["parameters"].items() if name not in apart}
        stated = f"ε = {budget.epsilon:g} at δ = {small(budget.delta)} against {budget.view}"
        facts = [
            ("question", survey.question.text),
            ("people", count(len(survey.values))),
            ("protocol", f"{protocol.kind}: {plugin_of(protocol).summary}"),
            *([("parameters", settings(planned))] if planned else []),
            ("randomizer", survey.randomizer.kind),
            solved,
            ("budget", stated),
            ("helpers", said(Fact("helpers", payload["helpers"]))),
            *([("live", settings(payload["live"]))] if survey.live != LiveOptions() else []),
            *([("expected error", f"± {plain(error, 2)} (one standard error)")] if error else []),
        ]
        console.print(facts_table(facts))
        print_guarantees(console, payload["guarantees"])
        if told := [each for each in own if each.name not in _PROMISED]:
            console.print(facts_table(lines(told)))

    warn_alone(payload["particulars"], payload["people"])
    emit(payload, render, format)
