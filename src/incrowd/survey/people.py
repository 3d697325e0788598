"""Participants of a survey: their records, or their number where their answers are elsewhere.

A survey may be tried out among fewer people than its data hold. Person i of a graph file is row i
of the data, and stays so: of a graph file a connected part is taken, and the rows of its people.
Without one, the first rows are taken, and a family of graphs is made for as many people. Everything
is settled by the files and the number alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks, graphs
from incrowd.errors import InvalidCrowd, located
from incrowd.graphs import Graph
from incrowd.protocols.settings import fields_of
from incrowd.survey.data import read_columns
from incrowd.survey.parse import Table
from incrowd.survey.questions import Question


@dataclass(frozen=True, eq=False)
class People:
    """Participants, and their raw records by question where these are at hand."""

    n: int
    records: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    """For each question a column of texts, or a row of texts of each person."""
    graph: Graph | None = None
    """Graph of a part of the people, where the survey names a file with that of all."""

    def values(self, question: Question) -> NDArray[np.str_]:
        """Return the raw answers to a question; none where they are elsewhere."""
        return self.records.get(question.id, np.empty(0, np.str_))


def read_people(folder: Path, questions: Sequence[Question]) -> People:
    """Read the columns of the data that the questions ask for."""
    records = {
        each.id: each.task.rows(read_columns(folder / each.data, each.task.asks(each.column)))
        for each in questions
    }
    return People(len(next(iter(records.values()))), records)


def part_of(people: People, n: int, protocol: Table, settings: type[msgspec.Struct]) -> People:
    """Return ``n`` of the people, for the table of a protocol with these settings."""
    n = checks.crowd(n, "people")
    if n > people.n:
        raise InvalidCrowd(f"there are no {n} people: the data have {people.n} rows; take fewer")
    path = _graph_file(protocol, settings)
    kept, graph = np.arange(n), None
    if n < people.n and path is not None:
        whole = graphs.load(path, allow_isolated=True)
        if whole.n != people.n:
            raise InvalidCrowd(
                f"{path} has {whole.n} people, but the data have {people.n} rows: each row of the "
                "data is one person of the graph"
            )
        with located(str(path)):
            kept = graphs.connected_part(whole, n)
        graph = whole.subgraph(kept)
    return People(n, {name: each[kept] for name, each in people.records.items()}, graph)


def _graph_file(protocol: Table, settings: type[msgspec.Struct]) -> Path | None:
    named = (protocol.values.get(each.name) for each in fields_of(settings).values() if each.path)
    files = (each for each in named if isinstance(each, str) and each)
    return next((Path(each) for each in files if not graphs.names_family(each)), None)
