"""The graph that settings name: a file or a family, with random peers where wanted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from incrowd import checks
from incrowd.errors import InvalidCrowd
from incrowd.graphs.graph import Graph
from incrowd.graphs.specs import names_family
from incrowd.protocols.settings import crowd_or_open, setting, source


def load_graph(settings: Mapping[str, Any], at_hand: Graph | None = None) -> Graph | None:
    """Return the graph that settings name, unless it is at hand, with their random peers."""
    name, peers = settings["graph"], settings.get("random_peers", 0)
    if at_hand is None and name:
        # A file counts its people; a family takes their number from the settings.
        n = checks.crowd(settings["n"]) if settings["n"] and names_family(name) else settings["n"]
        at_hand = graph_named(name, n)
    if at_hand is not None and checks.integer(peers, "random_peers", 0):
        return befriended(at_hand, peers)
    return at_hand


def graph_named(name: str, n: int) -> Graph:
    """The graph of a file as it is now, or that of a family for n people."""
    return _load(name, _changed(name), n)


@lru_cache(maxsize=4)
def _load(name: str, changed: int, n: int) -> Graph:
    from incrowd.graphs import load, named, names_family

    del changed
    if not names_family(name):
        return load(name, allow_isolated=True)
    if not n:
        raise InvalidCrowd(f"n is missing: {name} is a graph of any size", field="n")
    return named(name, n)


@lru_cache(maxsize=4)
def befriended(graph: Graph, peers: int) -> Graph:
    """The graph with random peers: always the same ones, so that a run can be repeated."""
    from incrowd.graphs import with_random_peers

    return with_random_peers(graph, peers, 0)


def _changed(path: str) -> int:
    """When a file last changed; none is as good as any for a file that is not there."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


CountedCrowd = Annotated[
    int,
    setting(
        "people who take part, the victim included",
        check=crowd_or_open,
        solve="min",
        default="counted in the graph",
    ),
]
"""Setting: the number of people, where a graph may tell."""
Contacts = Annotated[
    Graph | None,
    source(
        "file that says who can talk to whom, or a family of graphs such as regular:8", load_graph
    ),
]
"""Source: the graph of people who can talk to each other."""
