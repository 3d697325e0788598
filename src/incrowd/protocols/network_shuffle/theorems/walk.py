"""How reports move: who can talk to whom in each round, who was away, and who never handed in.

Everything here is public. A walk also says who can be mixed with whom at all, its *crowds*: the
people of one component, or of one side of a bipartite component when reports never stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import GraphInvalid, InvalidParameter
from incrowd.graphs.graph import Graph, from_edges
from incrowd.graphs.propagate import Step

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Walk:
    """How reports move: the graph of each round, the laziness, and who was away when.

    ``graphs`` are used in turn, again from the first after the last. ``away[r, v]`` says that v
    kept what it held in round r, and in the first round dropped the own report; ``silent[v]`` that
    v never handed in what it held at the end.
    """

    graphs: tuple[Graph, ...]
    laziness: float = 0.0
    away: Bools | None = None
    silent: Bools | None = None

    def __post_init__(self) -> None:
        """Refuse graphs of different people, and a table of absences that does not fit."""
        if not self.graphs:
            raise GraphInvalid("a walk needs at least one graph")
        sizes = {graph.n for graph in self.graphs}
        if len(sizes) > 1:
            raise GraphInvalid(
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
        """How many people there are."""
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
        """The spectral gap of a walk whose rounds are all alike; else there is none."""
        graph = self.graphs[0]
        if not self.steady or (graph.degrees == 0).any():
            return None
        return graph.spectral_gap(self.laziness)

    @cached_property
    def together(self) -> Graph:
        """Everyone who can ever talk to whom."""
        if len(self.graphs) == 1:
            return self.graphs[0]
        ends = [graph.edges() for graph in self.graphs]
        u, v = (np.concatenate([pair[side] for pair in ends]) for side in (0, 1))
        return from_edges(u, v, self.n, self_loops=True)

    @cached_property
    def crowds(self) -> NDArray[np.int32]:
        """The crowd of each person: the component, or a side of it where walks keep to sides."""
        graph = self.together
        _, component = graph.components()
        if self.laziness > 0 or len(self.graphs) > 1 or not graph.bipartite_components.any():
            return component
        return _renumbered(2 * component + graph.sides)

    def crowds_without(self, colluding: Bools) -> NDArray[np.int32]:
        """The crowds of honest people, who meet only where no colluder is between; others −1."""
        u, v = self.together.edges()
        open_ = ~(colluding[u] | colluding[v])
        _, component = from_edges(u[open_], v[open_], self.n).components()
        both = component.astype(np.int64) * (int(self.crowds.max()) + 1) + self.crowds
        return np.where(colluding, -1, _renumbered(both)).astype(np.int32)

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(Step(graph, self.laziness) for graph in self.graphs)

    def after(self, number: int, block: Doubles) -> Doubles:
        """The laws after round ``number``, from those before it, one per column."""
        return self._steps[number % len(self._steps)](block, self.away_in(number))

    def away_in(self, number: int) -> Bools | None:
        """Who keeps what they hold in this round."""
        if self.away is None or number >= len(self.away):
            return None
        return np.asarray(self.away[number])

    def away_table(self, rounds: int) -> Bools | None:
        """Who is away, one row for each of so many rounds."""
        if self.away is None:
            return None
        missing = max(0, rounds - len(self.away))
        return np.concatenate([self.away[:rounds], np.zeros((missing, self.n), bool)])

    def sequence(self, rounds: int) -> Graph | list[Graph]:
        """The graph of all rounds, or the list of the graphs of so many."""
        if len(self.graphs) == 1:
            return self.graphs[0]
        return [self.graphs[number % len(self.graphs)] for number in range(rounds)]

    def load(self, rounds: int) -> Doubles:
        """How many reports everyone is expected to hold after so many rounds."""
        return self._moved(self.begun(rounds)[:, None].astype(np.float64), rounds)

    def begun(self, rounds: int) -> Bools:
        """Whose report there is: those of people who were away in the first round are dropped."""
        away = self.away_in(0) if rounds else None
        return np.ones(self.n, bool) if away is None else ~away

    def reference(self, rounds: int) -> Doubles:
        """The law with which everyone's is compared after so many rounds, if all are one crowd."""
        return self._moved(start(self, np.arange(self.n)), rounds)

    def _moved(self, law: Doubles, rounds: int) -> Doubles:
        for number in range(rounds):
            law = self.after(number, law)
        return law[:, 0]

    def heard(self, block: Doubles) -> Doubles:
        """The laws of what the curator hears of at the end."""
        return block if self.silent is None else np.where(self.silent[:, None], 0.0, block)

    def unheard(self, block: Doubles, doubt: float) -> Doubles | float:
        """The chance, rounded up, that the curator never hears of a report."""
        if self.silent is None:
            return 0.0
        return np.asarray(block[self.silent].sum(axis=0) * (1 + doubt))

    def of(self, people: NDArray[np.intp]) -> Walk:
        """The same walk among some people, who talk to nobody else."""
        return Walk(
            tuple(graph.subgraph(people) for graph in self.graphs),
            self.laziness,
            None if self.away is None else self.away[:, people],
            None if self.silent is None else self.silent[people],
        )

    def key(self) -> tuple[object, ...]:
        """What tells this walk from another one."""
        tables = (self.away, self.silent)
        bits = tuple(None if each is None else (each.shape, each.tobytes()) for each in tables)
        return self.graphs, self.laziness, bits


def start(walk: Walk, own: NDArray[np.intp]) -> Doubles:
    """Where the reference begins: at a member of the crowd, chosen by degree.

    Rounds that are all alike keep this law. It is that of someone who hands in, if anyone does.
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
