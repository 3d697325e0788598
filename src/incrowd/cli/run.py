"""``incrowd run``: ask everybody, print the answer and its promise, write a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from incrowd.cli.options import field_option, flag, keyword, named_by_flag, signed, whole
from incrowd.cli.output import Format, FormatOption, emit, note, progress
from incrowd.errors import MissingExtra
from incrowd.survey.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from incrowd.protocols.base import Run
    from incrowd.sim import Faults
    from incrowd.survey import Survey

__all__ = ["run_command"]

_PANEL = "Faults (with --mode actors)"

ModeOption = Annotated[
    Literal["simulate", "actors"],
    typer.Option("--mode", help="Draw everybody at once, or play every participant on its own."),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Make the run repeatable.", parser=whole, metavar="INTEGER"),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Where to write the report; otherwise the survey's name with .report.html, here.",
        show_default=False,
    ),
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.")]


def run_command() -> Callable[..., None]:
    """The command, with one option for every fault that can be simulated."""
    from incrowd.sim import Faults

    options = [
        keyword("file", Annotated[Path, typer.Argument(help="A survey file.")]),
        keyword("mode", ModeOption, "simulate"),
        keyword("seed", SeedOption, None),
        keyword("report", ReportOption, None),
        keyword("no_report", NoReportOption, False),
        keyword("format", FormatOption, Format.table),
        *(field_option(field, panel=_PANEL) for field in fields_of(Faults).values()),
    ]
    return signed(run, "run", "Ask everybody what a survey file asks, on this machine.", options)


def run(given: Mapping[str, Any]) -> None:
    """Ask, account, report, print."""
    from incrowd import survey as surveys

    file, mode = given["file"], given["mode"]
    page = _page(file, given["report"], given["no_report"])
    faults = _faults(mode, given)
    with progress() as say:
        survey = surveys.load(file, progress=say)
        asked = f"asking {len(survey.values):,} people"
        say(asked)
        result = survey.run(
            mode,
            seed=given["seed"],
            faults=faults,
            progress=lambda done, total: say(asked, done=done, total=total),
        )
        say("computing the promises")
        payload = _payload(survey, result, mode)
        if page is not None:
            say("writing the report")
            _write(survey, result, payload, page, _command(file, mode, result, faults))
    payload["report"] = None if page is None else str(page)
    if not payload["budget"]["met"]:
        note("the budget was not kept: too few reports arrived to hide each person as planned")
    emit(payload, lambda console: _render(console, payload), given["format"])


def _page(file: Path, report: Path | None, no_report: bool) -> Path | None:
    """Where the report goes; none where none is wanted, or where none can be drawn."""
    from incrowd.report import require_writable
    from incrowd.report.plots import require_matplotlib

    if no_report:
        if report is not None:
            raise typer.BadParameter("contradicts --no-report", param_hint="'--report'")
        return None
    try:
        require_matplotlib()
    except MissingExtra:
        # A report that was asked for must not silently fail to appear; the default one may.
        if report is not None:
            raise
        note("no report without matplotlib: pip install 'incrowd[plot]'")
        return None
    page = report or Path(f"{file.stem}.report.html")
    require_writable(page)
    return page


def _faults(mode: str, given: Mapping[str, Any]) -> Faults | None:
    """The faults that were asked for; none without actors."""
    from incrowd.sim import Faults

    asked = {name: given[name] for name in fields_of(Faults) if given[name] is not None}
    if mode == "actors":
        with named_by_flag(asked):
            return Faults(**asked)
    for name in asked:
        raise typer.BadParameter("needs --mode actors", param_hint=f"'{flag(name)}'")
    return None


def _command(file: Path, mode: str, result: Run, faults: Faults | None) -> str:
    """The command that does the same again."""
    words = ["incrowd", "run", str(file), "--seed", str(result.seed)]
    if mode != "simulate":
        words += ["--mode", mode]
    if faults is not None:
        for field in fields_of(type(faults)).values():
            value = getattr(faults, field.name)
            if value != field.default:
                words += [flag(field.name), str(value)]
    return shlex.join(words)


def _payload(survey: Survey, result: Run, mode: str) -> dict[str, Any]:
    from incrowd.report import describe

    budget = survey.budget
    return {
        "question": survey.question,
        "result": describe.describe_answer(result.result),
        "interval": describe.describe_interval(result.result),
        "truth": survey.truth.tolist(),
        "people": result.result.people,
        "reports": {"sent": result.collected.sent, "received": result.collected.received},
        "guarantees": [
            describe.describe_guarantee(each, budget.delta) for each in result.guarantees
        ],
        "budget": {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "view": budget.view,
            "met": survey.met_by(result),
        },
        "parameters": describe.describe_parameters(survey.protocol),
        "cost": describe.describe_cost(result.cost, survey.task),
        "measured": describe.describe_measured(result),
        "details": survey.protocol.details(result.collected),
        "mode": mode,
        "seed": result.seed,
        "versions": describe.describe_versions(),
    }


def _write(
    survey: Survey, result: Run, payload: Mapping[str, Any], page: Path, command: str
) -> None:
    from incrowd.report import Document, write

    write(
        Document(
            question=survey.question,
            protocol=survey.protocol,
            run=result,
            epsilon=survey.budget.epsilon,
            delta=survey.budget.delta,
            view=survey.budget.view,
            met=payload["budget"]["met"],
            shares=survey.task.domain == "category",
            truth=survey.truth,
            source=survey.text,
            command=command,
        ),
        page,
    )


def _render(console: Console, payload: Mapping[str, Any]) -> None:
    from incrowd.report.format import count, small, up
    from incrowd.report.tables import answer_table, facts_table, guarantees_table
    from incrowd.report.words import facts

    budget, reports = payload["budget"], payload["reports"]
    randomizer = payload["parameters"]["randomizer"]
    console.print(payload["question"], style="bold", markup=False)
    console.print(answer_table(payload["result"], payload["interval"], payload["truth"]))
    console.print(guarantees_table(payload["guarantees"]))
    kept = "kept" if budget["met"] else "NOT kept"
    console.print(
        facts_table(
            [
                (
                    "budget",
                    f"ε = {budget['epsilon']:g} at δ = {small(budget['delta'])} against "
                    f"{budget['view']}: {kept}",
                ),
                ("people", f"{count(payload['people'])}, ε0 = {up(randomizer['epsilon'])} each"),
                ("reports", f"{count(reports['received'])} of {count(reports['sent'])} arrived"),
                ("planned cost", _cost(payload["cost"])),
                *(
                    [("measured cost", f"{_cost(measured)}, retries included")]
                    if (measured := payload["measured"])
                    else []
                ),
                *facts(payload["details"]),
                ("seed", str(payload["seed"])),
                *([("report", payload["report"])] if payload["report"] else []),
            ]
        )
    )


def _cost(described: Mapping[str, Any]) -> str:
    from incrowd.report.format import several

    return (
        f"{several(described['messages_per_person'], 'message')} and "
        f"{several(described['bytes_per_person'], 'byte')} per person"
    )
