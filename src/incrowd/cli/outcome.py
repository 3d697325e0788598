"""Results of a survey in files and on standard output, with notes beside them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from incrowd.blocks import DataTable, Fact, Section
from incrowd.cli.output import Format, emit, note, progress
from incrowd.errors import BudgetExceeded, FileNotWritable, IncrowdError, MissingExtra
from incrowd.protocols.run import Run
from incrowd.report import Document, Told, answers_of, require_writable, sections_of, write
from incrowd.report.figures import require_matplotlib
from incrowd.report.format import count
from incrowd.report.json import merged, payload
from incrowd.report.terminal import draw, draw_blocks, facts_table
from incrowd.survey import Survey

Sections = tuple[Section, ...]

ReportOption = Annotated[
    Path | None,
    typer.Option(help="File for the report; otherwise the survey's name with .report.html, here."),
]
TableOption = Annotated[
    Path | None,
    typer.Option(
        help="File for the table of a release; otherwise the survey's name with .release.csv, here."
    ),
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.")]


def page_of(file: Path, report: Path | None, no_report: bool) -> Path | None:
    """Return the path of the report; none if none is wanted or none can be drawn."""
    if no_report:
        if report is not None:
            raise typer.BadParameter("contradicts --no-report", param_hint="'--report'")
        return None
    try:
        require_matplotlib()
    except MissingExtra as error:
        # A report that was asked for must not silently fail to appear; the default one may.
        if report is not None:
            raise
        note(f"no report: {error}")
        return None
    page = report or Path(f"{file.stem}.report.html")
    require_writable(page)
    return page


def check_inputs(inputs: Iterable[Path], **outputs: Path | None) -> None:
    """Refuse to write over an input, or two things into one file."""
    taken = {each: str(each) for each in inputs}
    for name, path in outputs.items():
        if path is None:
            continue
        for other, told in taken.items():
            both = path.exists() and other.exists()
            if path.samefile(other) if both else path.resolve() == other.resolve():
                problem = f"would overwrite {told}: name another file"
                raise typer.BadParameter(problem, param_hint=f"'--{name}'")
        taken[path] = f"what --{name} writes"


def check_table(table: Path | None) -> None:
    """Refuse a place for the table where it could not be written."""
    if table is not None:
        require_writable(table, "release")


def table_of(survey: Survey, table: Path | None) -> Path | None:
    """Return the path of the table of a release; none of any other question."""
    if not survey.task.releases(survey.column):
        if table is not None:
            problem = f"a {survey.task.kind} releases no table"
            raise typer.BadParameter(problem, param_hint="'--table'")
        return None
    path = table or Path(f"{survey.document.path.stem}.release.csv")
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
        raise FileNotWritable(f"{path}: cannot write the release: {error.strerror}") from error


def note_people(survey: Survey) -> None:
    """Note what was unusual about the files of the people, and how these were joined."""
    for each in survey.people.notes:
        note(each)


def warn_alone(details: Mapping[str, Any], people: int) -> None:
    """Note the number of people alone in their groups, whom no order hides."""
    if alone := details.get("people_alone"):
        note(
            f"{count(alone)} of {count(people)} people are alone in their groups: which report is "
            "theirs is not hidden; larger groups would hide it"
        )


def document_of(
    survey: Survey, result: Run, engine: str, command: str, explain: bool | None = None
) -> Document:
    """Return what a report about a run is made from."""
    return Document(
        title=survey.text,
        questions=_told(survey, result),
        protocol=survey.protocol,
        run=result,
        epsilon=survey.budget.epsilon,
        delta=survey.budget.delta,
        view=survey.budget.view,
        solved=survey.only.solved,
        engine=engine,
        explain=explain,
        source=survey.document.text,
        command=command,
    )


def _told(survey: Survey, result: Run) -> tuple[Told, ...]:
    known = survey.truths_of(result), survey.gaps, survey.true_codes
    return tuple(
        Told(each.id, each.text, each.task, each.column, truth, gaps, codes)
        for each, truth, gaps, codes in zip(survey.questions, *known, strict=True)
    )


def publish(
    survey: Survey, document: Document, page: Path | None, format: Format, table: Path | None = None
) -> None:
    """Print the answer, then guarantees, then draw the report; a failed write costs nothing else.

    JSON is one document that says whether there is a report, and so comes after it.
    """
    failures: list[IncrowdError] = []
    first: Sections = answers_of(document) if format is Format.table else ()
    note_people(survey)
    if first:
        emit({}, lambda console: draw_blocks(console, first), format)
    with progress() as say:
        say("computing the guarantees")
        sections = sections_of(document)
    warn_alone(merged(sections)["diagnostics"], document.run.people)

    def written(path: Path | None, action: Callable[[Sections, Path], object]) -> str | None:
        try:
            if path is not None:
                action(sections, path)
        except IncrowdError as error:
            failures.append(error)
            return None
        return None if path is None else str(path)

    release = Fact("release", (Fact("file", written(table, _write_tables)),))
    files = [] if table is None else [Fact("tables", (release,))]
    if format is Format.json:
        files.append(Fact("report", written(page, _drawn)))
    shown = (*sections, Section("files", "", 300, tuple(files)))
    told = payload(shown)
    for each in told["questions"] or ():
        if each["gaps"]:
            several = f"{each['id']}: " if len(survey.questions) > 1 else ""
            _note_gaps(each["gaps"], len(survey.values), several)
    drawn = {each.key for each in first}
    emit(told, lambda console: draw(console, shown, drawn), format)
    if format is Format.table and (report := written(page, _drawn)):
        emit({}, lambda console: console.print(facts_table([("report", report)])), format)
    for failure in failures:
        raise failure
    if not told["budget"]["met"]:
        raise BudgetExceeded(
            "the budget was not kept: what happened hides each person less than was planned; rely "
            "on the guarantees of this run, and plan for as many people as really answer"
        )


def _drawn(sections: Sections, path: Path) -> None:
    with progress() as say:
        say("drawing the report")
        write(sections, path)


def _write_tables(sections: Sections, path: Path) -> None:
    for block in (block for section in sections for block in section.blocks):
        if isinstance(block, DataTable) and block.file:
            write_table(path, block.columns, block.rows)


def _note_gaps(gaps: Mapping[str, Any], people: int, question: str) -> None:
    if gaps["missing"] or gaps["outside"]:
        first = "" if gaps["first"] is None else f" (the first is row {gaps['first']})"
        note(
            f"{question}of {count(people)} rows {count(gaps['missing'])} have no answer and "
            f"{count(gaps['outside'])} have one outside the domain{first}"
        )
