"""SQL aggregates over tuples that people keep."""

from incrowd.tasks.query.answer import QueryAnswer, QueryRow
from incrowd.tasks.query.fold import Folded, Tabulated
from incrowd.tasks.query.schema import Column, Schema
from incrowd.tasks.query.task import Query

__all__ = ["Column", "Folded", "Query", "QueryAnswer", "QueryRow", "Schema", "Tabulated"]
