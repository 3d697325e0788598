"""Questions of a survey: each a task over a column of the data, with a randomizer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.settings import fields_of
from incrowd.survey.parse import SurveyDocument, Table
from incrowd.tasks.base import Asked, Task
from incrowd.tasks.joint import JointTask, OneOfTask
from incrowd.tasks.query import Query, Schema
from incrowd.tasks.registry import QUERY, TASKS, survey_tasks

_OWN = ("id", "text", "kind", "column", "weight", "missing", "randomizer")
"""Keys of a question that its task knows nothing of."""
_ALONE = (QUERY, "release")
"""Kinds of questions that stand alone in a survey."""
_CLAMP = "clamp"
"""What becomes of a number outside the bounds of its question: it counts as the nearest of them."""
MISSING = ("answer", "refuse", "drop")
"""Rules for people without an answer: an outcome of its own, an error, or left out."""


@dataclass(frozen=True)
class Question:
    """One question: its words, its task, the column that answers it, and its share."""

    id: str
    text: str
    task: Task
    column: str
    """Column of the data; of a query the table."""
    randomizer: Table
    weight: float = 1.0
    """Share of the budget, relative to the other questions: twice the weight, half the error."""
    missing: str = "answer"
    """One of :data:`MISSING`; the last two in simulations only."""


def questions_of(document: SurveyDocument) -> tuple[Question, ...]:
    """Return the questions of a survey."""
    alone = [each for each in document.questions if each.values.get("kind") in _ALONE]
    if alone and len(document.questions) > 1:
        kind = alone[0].values["kind"]
        problem = f"a {kind} stands alone: ask the other questions in a survey of their own"
        raise alone[0].fail("kind", problem)
    questions = tuple(_question(each, document) for each in document.questions)
    with document.origin.located("question"):
        task_of(questions, document.budget.ask)  # refuses questions that do not go together
    return questions


def task_of(questions: Sequence[Question], ask: str) -> Task:
    """Return the task of all questions together, of which people answer all or one."""
    if len(questions) == 1:
        return questions[0].task
    asked = (Asked(text=each.text, column=each.column, task=each.task) for each in questions)
    return (OneOfTask if ask == "one" else JointTask)(asked=tuple(asked))


def column_of(questions: Sequence[Question]) -> str:
    """Return the column of the only question; a joint task knows its own."""
    return questions[0].column if len(questions) == 1 else ""


def _question(table: Table, document: SurveyDocument) -> Question:
    kind = table.choose(survey_tasks())
    if kind == QUERY:
        task: Task = (query := _query(table, document))
        column = query.table
    else:
        column = table.get("column", str, table.values.get("id"))
        described: type[Task] = TASKS.load(kind)
        fields = fields_of(described)
        own: tuple[str, ...] = _OWN
        if "bounds" in fields:
            own = (*_OWN, "outside")
            if (outside := table.get("outside", str, _CLAMP)) != _CLAMP:
                raise table.fail("outside", f"expected {_CLAMP}, got {outside!r}")
        table.known((*fields, *own))
        task = table.without(*own).build(described)
    try:
        task.asks(column)
    except InvalidParameter as error:
        raise table.fail("column", str(error)) from error
    missing = table.get("missing", str, MISSING[0])
    if missing not in MISSING:
        raise table.fail("missing", f"expected one of {', '.join(MISSING)}, got {missing!r}")
    values = table.get("randomizer", dict, {})
    return Question(
        id=table.get("id", str, column),
        text=table.get("text", str, "") or task.default_question(column),
        task=task,
        column=column,
        randomizer=Table(table.origin, f"{table.name}.randomizer", values),
        weight=_weight(table),
        missing=missing,
    )


def _weight(table: Table) -> float:
    with table.located():
        weight = checks.number(table.values.get("weight", 1.0), "weight")
    if not weight > 0:
        raise table.fail("weight", f"must be above 0, got {weight:g}")
    return weight


def _query(table: Table, document: SurveyDocument) -> Query:
    table.known((*_OWN[:3], "sql", "randomizer"))
    schema = Schema.load(document.folder / document.data.get("schema", str))
    sql = table.get("sql", str)
    with table.located():
        return Query(sql=sql, table=schema.table, columns=schema.columns)
