"""Questions of a survey: each a task over some columns of the data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from incrowd.errors import InvalidParameter
from incrowd.protocols.settings import fields_of
from incrowd.survey.parse import SurveyDocument, Table
from incrowd.tasks.base import Task
from incrowd.tasks.query import Query, Schema
from incrowd.tasks.registry import QUERY, TASKS, survey_tasks

_OWN = ("kind", "data", "column", "question")
"""Keys of a question that its task knows nothing of."""


@dataclass(frozen=True)
class Question:
    """One question: its words, its task, and the column of the data that answers it."""

    id: str
    text: str
    task: Task
    column: str
    """Column of the data; of a query the table."""
    data: str
    """Name of the data file; empty where answers are elsewhere."""
    weight: float = 1.0
    """Share of the budget, relative to the other questions."""


def questions_of(document: SurveyDocument, *, data: bool = True) -> tuple[Question, ...]:
    """Return the questions of a survey; with ``data``, it names a file of the people's answers."""
    return tuple(_question(each, document.folder, data) for each in document.questions)


def _question(table: Table, folder: Path, data: bool) -> Question:
    file = table.get("data", str, None if data else "")
    text = table.get("question", str, "")
    kind = table.choose(survey_tasks())
    if kind == QUERY:
        task: Task = (query := _query(table, folder))
        column = query.table
    else:
        column = table.get("column", str)
        described: type[Task] = TASKS.load(kind)
        table.known((*fields_of(described), *_OWN))
        task = table.without(*_OWN).build(described)
    try:
        task.asks(column)
    except InvalidParameter as error:
        raise table.fail("column", str(error)) from error
    return Question(table.name, text or task.default_question(column), task, column, file)


def _query(table: Table, folder: Path) -> Query:
    table.known(("kind", "data", "schema", "sql", "question"))
    schema = Schema.load(folder / table.get("schema", str))
    sql = table.get("sql", str)
    with table.located():
        return Query(sql=sql, table=schema.table, columns=schema.columns)
