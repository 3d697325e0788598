"""Walks of reports: the graph of each round, absences, and people who never handed in.

Everything here is public. A walk mixes reports within *crowds* only: the people of one component,
or of one side of a bipartite component when reports never stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidGraph, InvalidParameter
from incrowd.graphs.graph import Graph, from_edges
from incrowd.graphs.propagate import Step

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Walk:
    """Movement of reports: the graph of each round, the laziness, and absences.

    ``graphs`` are used in turn, again from the first after the last. ``away[r, v]`` says that v
    kept what it held in round r, and in the first round dropped the own report; ``silent[v]`` that
    v never handed in.
    """

    graphs: tuple[Graph, ...]
    laziness: float = 0.0
    away: Bools | None = None
    silent: Bools | None = None

    def __post_init__(self) -> None:
        if not self.graphs:
            raise InvalidGraph("a walk needs at least one graph")
        sizes = {graph.n for graph in self.graphs}
        if len(sizes) > 1:
            raise InvalidGraph(
                f"the graphs of a walk must have the same people, these have {sorted(sizes)}"
            )
        if self.away is not None and (self.away.ndim != 2 or self.away.shape[1] != self.n):
            raise InvalidParameter(
                f"away must have one row per round and one column for each of {self.n} people, "
                f"got an array of shape {self.away.shape}"
            )
        if self.silent is not None and self.silent.shape != (self.n,):
            raise InvalidParameter(
                f"silent must say true or false for each of {self.n} people, got an array of "
                f"shape {self.silent.shape}"
            )

    @property
    def n(self) -> int:
        """Number of people."""
        return self.graphs[0].n

    @property
    def steady(self) -> bool:
        """Whether every round is the same."""
        return len(self.graphs) == 1 and self.present

    @property
    def present(self) -> bool:
        """Whether everyone takes part from the first round to the end."""
        return self.away is None and self.silent is None

    @cached_property
    def gap(self) -> float | None:
        """Spectral gap of a walk whose rounds are all alike; else none."""
        graph = self.graphs[0]
        mixes = self.steady and (graph.degrees > 0).all()
        return graph.spectral_gap(self.laziness) if mixes else None

    @cached_property
    def together(self) -> Graph:
        """Union of the graphs."""
        if len(self.graphs) == 1:
            return self.graphs[0]
        u, v = np.concatenate([graph.edges() for graph in self.graphs], axis=1)
        return from_edges(u, v, self.n, self_loops=True)

    @cached_property
    def crowds(self) -> NDArray[np.int32]:
        """Crowd of each person: the component, or a side of it where walks keep to sides."""
        graph = self.together
        _, component = graph.components()
        if self.laziness > 0 or len(self.graphs) > 1 or not graph.bipartite_components.any():
            return component
        return _renumbered(2 * component + graph.sides)

    def crowds_without(self, colluding: Bools) -> NDArray[np.int32]:
        """Return the crowds of honest people, cut where colluders are between; others −1."""
        u, v = self.together.edges()
        open_ = ~(colluding[u] | colluding[v])
        _, component = from_edges(u[open_], v[open_], self.n).components()
        both = component.astype(np.int64) * (int(self.crowds.max()) + 1) + self.crowds
        return np.where(colluding, -1, _renumbered(both)).astype(np.int32)

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(Step(graph, self.laziness) for graph in self.graphs)

    def after(self, number: int, block: Doubles) -> Doubles:
        """Return the laws after round ``number``, from those before it, one per column."""
        return self._steps[number % len(self._steps)](block, self.away_in(number))

    def away_in(self, number: int) -> Bools | None:
        """Return the people who are away in this round; none if all are there."""
        if self.away is None or number >= len(self.away):
            return None
        return np.asarray(self.away[number])

    def away_table(self, rounds: int) -> Bools | None:
        """Return who is away, one row for each of these rounds."""
        if self.away is None:
            return None
        missing = max(0, rounds - len(self.away))
        return np.concatenate([self.away[:rounds], np.zeros((missing, self.n), bool)])

    def sequence(self, rounds: int) -> Graph | list[Graph]:
        """Return the graph of all rounds, or the list of the graphs of each."""
        if len(self.graphs) == 1:
            return self.graphs[0]
        return list(islice(cycle(self.graphs), rounds))

    def load(self, rounds: int) -> Doubles:
        """Return the expected number of reports with everyone after these rounds."""
        return self._moved(self.begun(rounds)[:, None].astype(np.float64), rounds)

    def begun(self, rounds: int) -> Bools:
        """Return whose report there is: people away in the first round drop theirs."""
        away = self.away_in(0) if rounds else None
        return np.ones(self.n, bool) if away is None else ~away

    def reference(self, rounds: int) -> Doubles:
        """Return the law with which everyone's is compared after these rounds, in one crowd."""
        return self._moved(start(self, np.arange(self.n)), rounds)

    def _moved(self, law: Doubles, rounds: int) -> Doubles:
        for number in range(rounds):
            law = self.after(number, law)
        return law[:, 0]

    def heard(self, block: Doubles) -> Doubles:
        """Restrict the laws to reports that are handed in."""
        return block if self.silent is None else np.where(self.silent[:, None], 0.0, block)

    def unheard(self, block: Doubles, doubt: float) -> Doubles | float:
        """Return the chance, rounded up, that a report is never handed in."""
        if self.silent is None:
            return 0.0
        return np.asarray(block[self.silent].sum(axis=0) * (1 + doubt))

    def of(self, people: NDArray[np.intp]) -> Walk:
        """Return the same walk among some people alone."""
        return Walk(
            tuple(graph.subgraph(people) for graph in self.graphs),
            self.laziness,
            None if self.away is None else self.away[:, people],
            None if self.silent is None else self.silent[people],
        )

    def key(self) -> tuple[object, ...]:
        """Return a hashable value that tells this walk from another one."""
        tables = (self.away, self.silent)
        bits = tuple(None if each is None else (each.shape, each.tobytes()) for each in tables)
        return self.graphs, self.laziness, bits


def start(walk: Walk, own: NDArray[np.intp]) -> Doubles:
    """Return the reference's first law: a member of the crowd, chosen by degree.

    Rounds that are all alike keep it. The member hands in, if anyone does.
    """
    for gone in (walk.silent, None if walk.away is None else ~walk.begun(1)):
        if gone is not None and not gone[own].all():
            own = own[~gone[own]]
    weight = np.maximum(walk.graphs[0].degrees[own], 1)
    law = np.zeros((walk.n, 1))
    law[own, 0] = weight / weight.sum()
    return law


def _renumbered(labels: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.asarray(np.unique(labels, return_inverse=True)[1], np.int32)
