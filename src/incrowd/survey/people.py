"""Participants of a survey: their records, or their number where their answers are elsewhere.

Answers and a graph are joined by the names in the column ``person``. Where neither names people,
person i of the graph is row i of the data, and a note says so.

A survey may be tried out among fewer people than its data hold: of a graph file a connected part is
taken, and the rows of its people; without one the first rows, and a family of graphs is made for as
many people. Everything is settled by the files and the number alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks, data, graphs
from incrowd.errors import EmptyData, InvalidCrowd, InvalidParameter, located
from incrowd.graphs import Graph
from incrowd.protocols.settings import fields_of
from incrowd.survey.parse import SurveyDocument, Table
from incrowd.survey.questions import Question, column_of, task_of
from incrowd.tasks.raw import missing

_NOTHING: NDArray[Any] = np.empty(0, np.str_)
_SHOWN = 10
"""Most rows that one message lists."""


class DataFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[data]``: the file of answers, and what its text means."""

    file: str = ""
    person: str = ""
    schema: str = ""
    null_values: tuple[str, ...] = ()
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


@dataclass(frozen=True, eq=False)
class People:
    """Participants, and their raw records where these are at hand."""

    n: int
    values: NDArray[Any] = field(default_factory=lambda: _NOTHING)
    """A text of each person, or a row of texts; empty where answers are elsewhere."""
    names: NDArray[np.str_] | None = None
    """Names of the people, where the data have them."""
    graph: Graph | None = None
    """Graph of these people, in their order, where the survey names a file of one."""
    notes: tuple[str, ...] = ()
    """Sentences about what was unusual in the files."""

    def rows(self, kept: NDArray[Any], graph: Graph | None = None) -> People:
        """Return some of the people, by their rows."""
        names = None if self.names is None else self.names[kept]
        return replace(self, n=len(kept), values=self.values[kept], names=names, graph=graph)


def read_people(
    document: SurveyDocument, questions: Sequence[Question], frame: Any = None
) -> People:
    """Read the columns that the questions ask for, of a frame in place of the file if given."""
    document.data.known(fields_of(DataFile))
    task, described = task_of(questions, document.budget.ask), document.data.build(DataFile)
    if frame is None and not described.file:
        raise document.data.fail("file", "missing; add this key")
    file = document.folder / described.file
    asked = task.asks(column_of(questions))
    person = [described.person] if described.person else []
    try:
        found = data.read(
            file if frame is None else frame,
            columns=[*dict.fromkeys((*asked, *person))], null_values=described.null_values,
            separator=described.separator, decimal=described.decimal, encoding=described.encoding,
        )  # fmt: skip
    except InvalidParameter as error:
        # The survey is wrong about the file, and not the file.
        document.origin.locate(error, document.data.name)
        raise
    names = found.people(described.person) if described.person else None
    notes = () if found.usual else found.notes
    people = People(found.n, task.rows(found.columns(asked)), names, notes=notes)
    with located(found.source):
        return _answering(people, questions, task.answers(people.values))


def with_graph(people: People, protocol: Table, settings: type[msgspec.Struct]) -> People:
    """Return the people with the graph of a file that the protocol names, joined by name."""
    path = _graph_file(protocol, settings)
    if path is None:
        return people
    with protocol.located():
        graph = graphs.load(path, allow_isolated=True, people=people.names)
    if people.names is not None:
        with located(str(path)):
            return replace(people, graph=graph.aligned(people.names))
    if graph.labels is not None:
        raise InvalidCrowd(
            f"{path} names people, and the data do not: set data.person to the column of names, so "
            "that both are joined by name"
        )
    told = f"{path.name}: people have no names: person 0 of the graph is the first row of the data"
    return replace(people, notes=(*people.notes, told))


def _answering(
    people: People, questions: Sequence[Question], values: Sequence[NDArray[Any]]
) -> People:
    """Return those who count, by the rules of the questions for missing answers."""
    kept = np.ones(people.n, bool)
    for question, answers in zip(questions, values, strict=True):
        if question.missing == "answer":
            continue
        gone = missing(answers) if answers.ndim == 1 else missing(answers).any(axis=1)
        if question.missing == "refuse" and gone.any():
            rows = [str(row + 1) for row in np.flatnonzero(gone)[:_SHOWN]]
            more = "" if gone.sum() <= _SHOWN else f" and {gone.sum() - _SHOWN:,} more"
            raise InvalidParameter(
                f"{question.column}: no answer in row {', '.join(rows)}{more}: fill them in, or "
                f'set missing = "answer" in question {question.id}'
            )
        kept &= ~gone
    if not kept.any():
        raise EmptyData("every row has a missing answer: nobody is left to ask")
    return people if kept.all() else people.rows(np.flatnonzero(kept))


def part_of(people: People, n: int, protocol: Table, settings: type[msgspec.Struct]) -> People:
    """Return ``n`` of the people, for the table of a protocol with these settings."""
    n = checks.crowd(n, "people")
    if n > people.n:
        raise InvalidCrowd(f"there are no {n} people: the data have {people.n} rows; take fewer")
    path, graph = _graph_file(protocol, settings), people.graph
    kept = np.arange(n)
    if n < people.n and path is not None:
        whole = graph or graphs.load(path, allow_isolated=True)
        if whole.n != people.n:
            raise InvalidCrowd(
                f"{path} has {whole.n} people, but the data have {people.n} rows: each row of the "
                "data is one person of the graph"
            )
        with located(str(path)):
            kept = graphs.connected_part(whole, n)
        graph = whole.subgraph(kept)
    return people.rows(kept, graph)


def _graph_file(protocol: Table, settings: type[msgspec.Struct]) -> Path | None:
    named = (protocol.values.get(each.name) for each in fields_of(settings).values() if each.path)
    files = (each for each in named if isinstance(each, str) and each)
    return next((Path(each) for each in files if not graphs.names_family(each)), None)
