"""``incrowd run``: ask everybody, print the answer and its promise, write a report.

Everybody is drawn at once, played as a state machine, or, with ``--live``, a device of its own that
talks to the others over a network on this machine.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from incrowd import checks
from incrowd.cli.options import (
    field_option,
    flag,
    keyword,
    named_by_flag,
    number_option,
    signed,
    whole,
)
from incrowd.cli.output import Format, FormatOption, emit, note, progress
from incrowd.errors import MissingExtra
from incrowd.survey.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from incrowd.live.options import LiveOptions
    from incrowd.protocols.base import Run
    from incrowd.sim import Faults
    from incrowd.survey import Survey
    from incrowd.survey.survey import Progress

__all__ = ["run_command"]

_FAULTS = "Faults (with --mode actors)"
_LIVE = "Live runs (with --live; otherwise as the survey says)"

Mode = Literal["simulate", "actors"]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        help="Draw everybody at once, or play every participant on its own. Default: simulate.",
        show_default=False,
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option("--live", help="Give everybody a device of its own, and run them on a network."),
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
    """The command, with one option for every fault and for everything about live runs."""
    from incrowd.live.options import LiveOptions
    from incrowd.sim import Faults

    devices = number_option(
        "devices", "Ask only so many of the people, with the promise solved for them.", int
    )
    options = [
        keyword("file", Annotated[Path, typer.Argument(help="A survey file.")]),
        keyword("mode", ModeOption, None),
        keyword("live", LiveOption, False),
        keyword("devices", devices, None),
        keyword("seed", SeedOption, None),
        keyword("report", ReportOption, None),
        keyword("no_report", NoReportOption, False),
        keyword("format", FormatOption, Format.table),
        *(field_option(each, panel=_FAULTS) for each in fields_of(Faults).values()),
        *(field_option(each, panel=_LIVE, switch=True) for each in fields_of(LiveOptions).values()),
    ]
    return signed(run, "run", "Ask everybody what a survey file asks, on this machine.", options)


def run(given: Mapping[str, Any]) -> None:
    """Ask, account, report, print."""
    from incrowd import survey as surveys

    file, live = given["file"], _live(given)
    mode: Mode = given["mode"] or "simulate"
    if given["devices"] is not None:
        checks.crowd(given["devices"], flag("devices"))
    page = _page(file, given["report"], given["no_report"])
    faults = _faults(mode, given)
    with progress() as say:
        survey = surveys.load(file, progress=say, people=given["devices"])
        if live is not None:
            result = _run_live(survey, live, say)
        else:
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
            _write(survey, result, payload, page, _command(given, result, faults, live))
    payload["report"] = None if page is None else str(page)
    if not payload["budget"]["met"]:
        note("the budget was not kept: too few reports arrived to hide each person as planned")
    emit(payload, lambda console: _render(console, payload), given["format"])


def _live(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was asked of a live run, beyond what the survey says; none where none was asked."""
    from incrowd.live.options import LiveOptions

    asked = {name: given[name] for name in fields_of(LiveOptions) if given[name] is not None}
    if not given["live"]:
        for name in asked:
            raise typer.BadParameter("needs --live", param_hint=f"'{flag(name)}'")
        return None
    if given["mode"] is not None:
        raise typer.BadParameter("contradicts --live", param_hint="'--mode'")
    if given["seed"] is not None:
        raise typer.BadParameter(
            "a live device refuses a seed: what protects a person must not be repeatable",
            param_hint="'--seed'",
        )
    with named_by_flag(asked):
        LiveOptions(**asked)
    return asked


def _run_live(survey: Survey, asked: Mapping[str, Any], say: Progress) -> Run:
    """Give everybody a device, and let them answer over a network."""
    import msgspec

    def tell(stage: str, done: int, total: int) -> None:
        shown = f"{stage} {done:,} of {total:,}" if total else stage
        say(shown, done=done, total=total)

    options: LiveOptions = msgspec.structs.replace(survey.live, **asked)
    say("starting the devices")
    with named_by_flag(fields_of(type(options))):
        return survey.run_live(
            options,
            progress=tell,
        )


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


def _command(
    given: Mapping[str, Any],
    result: Run,
    faults: Faults | None,
    live: Mapping[str, Any] | None,
) -> str:
    """The command that does the same again."""
    words = ["incrowd", "run", str(given["file"])]
    if given["devices"] is not None:
        words += [flag("devices"), str(given["devices"])]
    if live is not None:
        words.append(flag("live"))
        for name, value in live.items():
            words += _switch(name, value) if isinstance(value, bool) else [flag(name), str(value)]
        return shlex.join(words)
    words += [flag("seed"), str(result.seed)]
    if given["mode"] is not None:
        words += [flag("mode"), given["mode"]]
    if faults is not None:
        for field in fields_of(type(faults)).values():
            value = getattr(faults, field.name)
            if value != field.default:
                words += [flag(field.name), str(value)]
    return shlex.join(words)


def _switch(name: str, on: bool) -> list[str]:
    return [flag(name if on else f"no_{name}")]


def _payload(survey: Survey, result: Run, mode: str) -> dict[str, Any]:
    from incrowd.report import describe

    budget, live = survey.budget, describe.describe_live(result)
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
        "live": live,
        "mode": mode if live is None else "live",
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
    from incrowd.report.words import facts, live_facts

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
                *(live_facts(payload["live"]) if payload["live"] else []),
                *([] if payload["live"] else [("seed", str(payload["seed"]))]),
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
