"""A survey among fewer people than its data hold, to try it out at a smaller size.

Person i of a graph file is row i of the data, and stays so: of a graph file a connected part is
taken, and the rows of its people. Without one, the first rows are taken, and a family of graphs is
made for as many people. Everything is settled by the files and the number alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks, graphs
from incrowd.errors import InvalidCrowd, located
from incrowd.graphs import Graph
from incrowd.protocols.settings import fields_of

Part = tuple[NDArray[np.intp], Graph | None]
"""The rows that are kept, and the graph of their people where the survey names a file of one."""


def part_of(description: type[Any], values: dict[str, Any], people: int, rows: int) -> Part:
    """``people`` of ``rows``, for the table of a protocol with these values."""
    people = checks.crowd(people, "people")
    if people > rows:
        raise InvalidCrowd(f"there are no {people} people: the data have {rows} rows; take fewer")
    path = _graph_file(description, values)
    if people == rows or path is None:
        return np.arange(people), None
    graph = graphs.load(path, allow_isolated=True)
    if graph.n != rows:
        raise InvalidCrowd(
            f"{path} has {graph.n} people, but the data have {rows} rows: each row of the data is "
            "one person of the graph"
        )
    with located(str(path)):
        kept = graphs.connected_part(graph, people)
    return kept, graph.subgraph(kept)


def _graph_file(description: type[Any], values: dict[str, Any]) -> Path | None:
    """The file that says who can talk to whom, where the table names one."""
    for name, field in fields_of(description).items():
        value = values.get(name)
        if field.path and isinstance(value, str) and value and not graphs.names_family(value):
            return Path(value)
    return None
