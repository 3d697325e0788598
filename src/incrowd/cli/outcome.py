"""What came out of a survey, however it was run: as data, as tables, and as a report."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd.cli.output import Format, emit, note
from incrowd.errors import FileUnreadable, IncrowdError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from incrowd.protocols.run import Run
    from incrowd.survey import Survey

__all__ = [
    "NoReportOption",
    "ReportOption",
    "TableOption",
    "check_inputs",
    "check_table",
    "page_of",
    "payload_of",
    "publish",
    "table_of",
    "warn_alone",
    "write_table",
]

ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Where to write the report; otherwise the survey's name with .report.html, here.",
        show_default=False,
    ),
]
TableOption = Annotated[
    Path | None,
    typer.Option(
        "--release",
        help="Where to write the table of a release; otherwise the survey's name with "
        ".release.csv, here.",
        show_default=False,
    ),
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.")]


def page_of(file: Path, report: Path | None, no_report: bool) -> Path | None:
    """Where the report goes; none where none is wanted, or where none can be drawn."""
    from incrowd.report import require_writable
    from incrowd.report.figures import require_matplotlib

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


def check_inputs(inputs: Iterable[Path], **outputs: Path | None) -> None:
    """Refuse to write over what was read, or two things into one file."""
    taken = {each: str(each) for each in inputs}
    for name, path in outputs.items():
        if path is None:
            continue
        for other, told in taken.items():
            if _same(path, other):
                raise typer.BadParameter(
                    f"would overwrite {told}: name another file", param_hint=f"'--{name}'"
                )
        taken[path] = f"what --{name} writes"


def _same(one: Path, other: Path) -> bool:
    """Whether both are one file, by whatever names and links."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def check_table(table: Path | None) -> None:
    """Refuse a place for the table where it could not be written."""
    from incrowd.report import require_writable

    if table is not None:
        require_writable(table, "release")


def table_of(survey: Survey, table: Path | None) -> Path | None:
    """Where the table of a release goes; none of any other question."""
    from incrowd.tasks.release import Release

    if not isinstance(survey.task, Release):
        if table is not None:
            raise typer.BadParameter(
                f"a {survey.task.kind} releases no table", param_hint="'--release'"
            )
        return None
    path = table or Path(f"{survey.path.stem}.release.csv")
    check_table(path)
    return path


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write comma-separated values with a header."""
    try:
        with path.open("w", newline="", encoding="utf-8") as stream:
            written = csv.writer(stream, lineterminator="\n")
            written.writerow(header)
            written.writerows(rows)
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot write the release: {error.strerror}") from error


def warn_alone(details: Mapping[str, Any], people: int) -> None:
    """Say of how many people no order hides anything, where there are groups and such people."""
    from incrowd.report.format import count

    if alone := details.get("people_alone"):
        note(
            f"{count(alone)} of {count(people)} people are alone in their groups: nothing is "
            "promised of which report is theirs, unless groups are larger"
        )


def payload_of(survey: Survey, result: Run, mode: str) -> dict[str, Any]:
    """The keys of the JSON output."""
    from incrowd.report import describe

    budget, live = survey.budget, describe.describe_live(result)
    truth = survey.truth_of(result)
    return {
        "question": survey.question,
        "result": describe.describe_answer(result.result),
        "interval": describe.describe_interval(result.result),
        "table": describe.describe_table(result.result),
        "release": describe.describe_release(result.result),
        "refined": describe.describe_refined(result, budget.delta, budget.view),
        "truth": None if truth is None else truth.tolist(),
        "missing": result.result.missing,
        "gaps": None if live is not None else describe.describe_gaps(survey.gaps),
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
        "cost": describe.describe_cost(result.cost, survey.task, result.result.people),
        "measured": describe.describe_measured(result),
        "details": survey.protocol.run_diagnostics(result.collected, budget.delta),
        "live": live,
        "mode": mode if live is None else "live",
        "seed": result.seed,
        "versions": describe.describe_versions(),
    }


def _write(
    survey: Survey, result: Run, payload: Mapping[str, Any], page: Path, command: str
) -> None:
    """Write the report."""
    from incrowd.report import Document
    from incrowd.report import write as write_page

    write_page(
        Document(
            question=survey.question,
            protocol=survey.protocol,
            run=result,
            epsilon=survey.budget.epsilon,
            delta=survey.budget.delta,
            view=survey.budget.view,
            met=payload["budget"]["met"],
            shares=survey.task.domain == "category",
            truth=survey.truth_of(result),
            source=survey.text,
            command=command,
        ),
        page,
    )


def publish(
    survey: Survey,
    result: Run,
    payload: dict[str, Any],
    page: Path | None,
    command: str,
    format: Format,
    table: Path | None = None,
) -> None:
    """Write report and table and print everything; what cannot be written costs nothing else."""
    failure = None
    if table is not None:
        payload["release"]["file"] = str(table)
        try:
            answer: Any = result.result
            write_table(table, [*answer.columns, survey.column], answer.rows)
        except IncrowdError as error:
            failure, payload["release"]["file"] = error, None
    payload["report"] = None if page is None else str(page)
    if page is not None:
        try:
            _write(survey, result, payload, page, command)
        except IncrowdError as error:
            failure, payload["report"] = failure or error, None
    if gaps := payload["gaps"]:
        _note_gaps(gaps, len(survey.values))
    if not payload["budget"]["met"]:
        note("the budget was not kept: what happened hides each person less than was planned")
    emit(payload, lambda console: _render(console, payload), format)
    if failure is not None:
        raise failure


def _note_gaps(gaps: Mapping[str, Any], people: int) -> None:
    """Say how many rows of the data at hand have no usable answer, where there are any."""
    from incrowd.report.format import count

    if gaps["missing"] or gaps["outside"]:
        first = "" if gaps["first"] is None else f" (the first is row {gaps['first']})"
        note(
            f"of {count(people)} rows {count(gaps['missing'])} have no answer and "
            f"{count(gaps['outside'])} have one outside the domain{first}"
        )


def _render(console: Console, payload: Mapping[str, Any]) -> None:
    """Draw the payload as tables."""
    from incrowd.report.format import count, small
    from incrowd.report.tables import (
        answer_table,
        facts_table,
        print_promises,
        query_table,
        refined_table,
    )
    from incrowd.report.words import treatment

    budget, reports = payload["budget"], payload["reports"]
    randomizer = payload["parameters"]["randomizer"]
    console.print(payload["question"], style="bold", markup=False)
    if plan := payload.get("plan"):
        console.print()
        console.print(plan["text"], markup=False, no_wrap=True, overflow="ignore", crop=False)
        console.print()
        console.print(facts_table([("•", each) for each in plan["explanation"]]))
    if payload["table"] is None:
        console.print(answer_table(payload["result"], payload["interval"], payload["truth"]))
    else:
        console.print(query_table(**payload["table"]))
    if len(payload["refined"]) > 1:
        labels = [row["label"] for row in payload["result"]]
        console.print(refined_table(payload["refined"], labels))
    print_promises(console, payload["guarantees"])
    kept = "kept" if budget["met"] else "NOT kept"
    console.print(
        facts_table(
            [
                (
                    "budget",
                    f"ε = {budget['epsilon']:g} at δ = {small(budget['delta'])} against "
                    f"{budget['view']}: {kept}",
                ),
                ("people", f"{count(payload['people'])}, {treatment(randomizer)}"),
                ("no answer", payload["missing"]),
                *_settings(payload),
                ("reports", f"{count(reports['received'])} of {count(reports['sent'])} arrived"),
                ("planned cost", _cost(payload["cost"])),
                *(
                    [("measured cost", f"{_cost(measured)}, retries included")]
                    if (measured := payload["measured"])
                    else []
                ),
                *_told(payload),
                *([] if payload["seed"] is None else [("seed", str(payload["seed"]))]),
                *_released(payload["release"]),
                *([("report", payload["report"])] if payload["report"] else []),
            ]
        )
    )


def _told(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the protocol has to say, and the live run; what both know, the latter says."""
    from incrowd.report.words import facts, live_facts

    live = live_facts(payload["live"]) if payload["live"] else []
    said = {name for name, _ in live}
    return [*(each for each in facts(payload["details"]) if each[0] not in said), *live]


def _released(release: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    from incrowd.report.format import count

    if not release or not release.get("file"):
        return []
    return [("release", f"{count(release['rows'])} rows in {release['file']}")]


def _settings(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the messages of a query travelled, which may have been chosen for it."""
    from incrowd.report.words import settings

    if payload["table"] is None:
        return []
    apart = ("protocol", "randomizer", "n")
    shown = {name: each for name, each in payload["parameters"].items() if name not in apart}
    return [("parameters", settings(shown))]


def _cost(described: Mapping[str, Any]) -> str:
    from incrowd.report.format import several

    return (
        f"{several(described['messages_per_person'], 'message')} and "
        f"{several(described['bytes_per_person'], 'byte')} per person"
    )
