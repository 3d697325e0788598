"""Results of a survey in files and on standard output, with notes beside them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from incrowd.blocks import DataTable, Fact, Section
from incrowd.cli.output import Format, emit, note
from incrowd.errors import FileUnreadable, IncrowdError, MissingExtra
from incrowd.protocols.run import Run
from incrowd.report import Document, require_writable, sections_of, write
from incrowd.report.figures import require_matplotlib
from incrowd.report.format import count
from incrowd.report.json import payload
from incrowd.report.terminal import draw
from incrowd.survey import Survey

Sections = tuple[Section, ...]

ReportOption = Annotated[
    Path | None,
    typer.Option(
        help="Where to write the report; otherwise the survey's name with .report.html, here."
    ),
]
TableOption = Annotated[
    Path | None,
    typer.Option(
        help="Where to write the table of a release; otherwise the survey's name with "
        ".release.csv, here."
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
    if not survey.task.releases(survey.question.column):
        if table is not None:
            problem = f"a {survey.task.kind} releases no table"
            raise typer.BadParameter(problem, param_hint="'--release'")
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
        raise FileUnreadable(f"{path}: cannot write the release: {error.strerror}") from error


def warn_alone(details: Mapping[str, Any], people: int) -> None:
    """Note the number of people alone in their groups, whom no order hides."""
    if alone := details.get("people_alone"):
        note(
            f"{count(alone)} of {count(people)} people are alone in their groups: nothing is "
            "promised of which report is theirs, unless groups are larger"
        )


def told_of(
    survey: Survey, result: Run, mode: str, command: str, explain: bool | None = None
) -> Sections:
    """Return the sections of a report about a run."""
    return sections_of(
        Document(
            question=survey.question.text,
            task=survey.task,
            protocol=survey.protocol,
            run=result,
            epsilon=survey.budget.epsilon,
            delta=survey.budget.delta,
            view=survey.budget.view,
            met=survey.met_by(result),
            column=survey.question.column,
            truth=survey.truth_of(result),
            gaps=survey.gaps,
            mode=mode,
            explain=explain,
            source=survey.document.text,
            command=command,
        )
    )


def publish(
    survey: Survey, sections: Sections, page: Path | None, format: Format, table: Path | None = None
) -> None:
    """Write report and table and print everything; a failed write costs nothing else."""
    failures: list[IncrowdError] = []

    def written(path: Path | None, action: Callable[[Sections, Path], object]) -> str | None:
        try:
            if path is not None:
                action(sections, path)
        except IncrowdError as error:
            failures.append(error)
            return None
        return None if path is None else str(path)

    release = (Fact("file", written(table, _write_tables)),)
    files = [] if table is None else [Fact("release", release)]
    files.append(Fact("report", written(page, write)))
    shown = (*sections, Section("files", "", 300, tuple(files)))
    told = payload(shown)
    if gaps := told["gaps"]:
        _note_gaps(gaps, len(survey.values))
    if not told["budget"]["met"]:
        note("the budget was not kept: what happened hides each person less than was planned")
    emit(told, lambda console: draw(console, shown), format)
    for failure in failures:
        raise failure


def _write_tables(sections: Sections, path: Path) -> None:
    for block in (block for section in sections for block in section.blocks):
        if isinstance(block, DataTable) and block.file:
            write_table(path, block.columns, block.rows)


def _note_gaps(gaps: Mapping[str, Any], people: int) -> None:
    if gaps["missing"] or gaps["outside"]:
        first = "" if gaps["first"] is None else f" (the first is row {gaps['first']})"
        note(
            f"of {count(people)} rows {count(gaps['missing'])} have no answer and "
            f"{count(gaps['outside'])} have one outside the domain{first}"
        )
