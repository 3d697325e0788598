"""``incrowd check``: what a survey file would do and guarantee, without asking anybody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from incrowd import survey as surveys
from incrowd import toml
from incrowd.blocks import Fact, values_of
from incrowd.cli.outcome import note_people, warn_alone
from incrowd.cli.output import Format, FormatOption, emit, progress, write_text
from incrowd.live.options import LiveOptions
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import prospective
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.run import guarantees
from incrowd.report.format import count, down, plain, small
from incrowd.report.json import (
    describe_cost,
    describe_errors,
    describe_guarantee,
    describe_parameters,
    describe_solved,
)
from incrowd.report.tables import questions
from incrowd.report.terminal import facts_table, print_guarantees, text_table
from incrowd.report.words import lines, said, settings, unprotected
from incrowd.survey import Survey
from incrowd.survey.upgrade import upgrade as upgraded

if TYPE_CHECKING:
    from rich.console import Console

_APART = ("protocol", "n", "randomizer", "id", "kind", "chance", "expected_error")
"""Parameters that have lines or a table of their own."""


def check(
    file: Annotated[Path, typer.Argument(help="A survey file.")],
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Print a survey of version 1 as version 2 instead.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="With --upgrade: a new file to write, in place of standard output."),
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Say what a survey would do and guarantee; run nothing."""
    if upgrade:
        _upgrade(file, output)
        return
    if output is not None:
        raise typer.BadParameter("needs --upgrade", param_hint="'--output'")
    with progress() as say:
        survey = surveys.load(file, progress=say)
        say("computing the guarantees")
        protocol = prospective(survey.protocol, survey.task.encode(survey.values))
        budget = survey.budget
        own = protocol.diagnostics(budget.delta, protocol.guarantee(budget.view))
        payload: dict[str, Any] = {
            "survey": str(file),
            "title": survey.text,
            "questions": [
                {"id": each.id, "kind": each.task.kind, "text": each.text}
                for each in survey.questions
            ],
            "people": len(survey.values),
            "guarantees": [describe_guarantee(each, budget.delta) for each in guarantees(protocol)],
            "budget": msgspec.to_builtins(budget),
            "solved": describe_solved(protocol, survey.only.solved),
            "parameters": _parameters(survey, protocol),
            "cost": describe_cost(protocol.cost(), survey.task, protocol, protocol.n),
            "diagnostics": values_of(own),
            "helpers": list(protocol.helpers),
            "live": msgspec.to_builtins(survey.live),
        }

    def render(console: Console) -> None:
        console.print(facts_table(_facts(survey, protocol, payload)))
        console.print()
        if several := payload["parameters"].get("questions"):
            console.print(text_table(questions(several)))
        views = plugin_of(protocol).stated_views
        clear = survey.task.clear_columns(survey.column)
        about = payload["diagnostics"].get("unprotected", "")
        notice = unprotected(payload["guarantees"], views, about, clear)
        console.print(notice, markup=False)
        print_guarantees(console, payload["guarantees"])
        if told := [each for each in own if each.name != "unprotected"]:
            console.print(facts_table(lines(told)))

    note_people(survey)
    warn_alone(payload["diagnostics"], payload["people"])
    emit(payload, render, format)


def _upgrade(file: Path, output: Path | None) -> None:
    """Write a survey of version 1 as one of version 2."""
    text = upgraded(toml.read_text(file, "survey"), str(file))
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text, "survey")


def _parameters(survey: Survey, protocol: Protocol) -> dict[str, Any]:
    """Describe the parameters; of several questions each with its name and its expected error."""
    described = describe_parameters(protocol)
    if several := described.get("questions"):
        errors = describe_errors(protocol, survey.task.parts)
        described["questions"] = [
            {"id": question.id, "kind": question.task.kind, "expected_error": error} | parameters
            for question, error, parameters in zip(survey.questions, errors, several, strict=True)
        ]
    return described


def _facts(survey: Survey, protocol: Protocol, payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Lines about the plan; the randomizers of several questions are in a table of their own."""
    budget, error = survey.budget, payload["cost"]["expected_error"]
    origin = "solved from the budget" if survey.only.solved else "as given"
    solved = ("ε0", f"{down(survey.randomizer.epsilon, 6)}, {origin}")
    if survey.task.kind == "query":
        solved = ("how", f"sampling, sources and dummies {origin}")
    several = payload["parameters"].get("questions")
    planned = _shared(several) if several else payload["parameters"]
    planned = {name: x for name, x in planned.items() if name not in _APART}
    stated = f"ε = {small(budget.epsilon)} at δ = {small(budget.delta)} against {budget.view}"
    return [
        ("question", survey.text),
        ("people", count(len(survey.values))),
        ("protocol", f"{protocol.kind}: {plugin_of(protocol).summary}"),
        *([("parameters", settings(planned))] if settings(planned) else []),
        *([] if several else [("randomizer", survey.randomizer.kind)]),
        *_reason(survey),
        solved,
        ("budget", stated),
        ("helpers", said(Fact("helpers", payload["helpers"]))),
        *([("live", settings(payload["live"]))] if survey.live != LiveOptions() else []),
        *([("expected error", f"± {plain(error, 2)} (one standard error)")] if error else []),
    ]


def _reason(survey: Survey) -> list[tuple[str, str]]:
    """Line on randomizers that were chosen rather than named, where there was a choice."""
    compared = zip(survey.questions, survey.only.considered, strict=False)
    chosen = {each.id: kinds for each, kinds in compared if len(kinds) > 1}
    if not chosen:
        return []
    several = len(survey.questions) > 1
    about = f", for {', '.join(chosen)}" if several else f" of {', '.join(*chosen.values())}"
    return [("chosen", f"randomizer of least error{about}")]


def _shared(questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Parameters that are the same for all questions."""
    first, *others = questions
    return {name: x for name, x in first.items() if all(each[name] == x for each in others)}
