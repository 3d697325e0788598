"""Exact privacy of network shuffling among a handful of people, in rational arithmetic.

Nothing here shares a formula, or a line, with the library. A graph is a tuple of rows of
neighbours; ``E = e^ε0``, ``t = e^ε`` and the laziness are rational, so that every number is exact.

* A report is a bit of binary randomized response and a *label*: all that anybody sees of its walk.
  Without colluders that is the final holder. With colluders it is the path with the unseen
  positions blanked out: they recognise a ciphertext each time that one of them holds it, and know
  from whom it came and to whom it went; the curator sees the last holder of all.
* The *view* is the unordered multiset of (label, bit), built person by person. In mode ``"single"``
  it then goes through the hand-over: every honest person forwards one of the reports she holds, or
  a fair coin if she holds none.
* The *truth* is the hockey-stick divergence of the views of two neighbouring data sets, maximised
  over the victim's two values in both directions and over the bits of all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, permutations, product
from math import comb, factorial, lcm, prod, sqrt
from typing import Literal, TypeVar

Graph = tuple[tuple[int, ...], ...]
"""The neighbours of each vertex."""
Law = tuple[Fraction, ...]
Label = tuple[int | None, ...]
"""The holder after each round, last one last; none where nobody who tells has seen it."""
Labels = Sequence[Mapping[Label, Fraction]]
"""The law of each person's label."""
Item = tuple[Label, int | None]
"""A label and a bit; no bit for a report of a colluder, whose content is known in advance."""
Mode = Literal["all", "single"]
Number = TypeVar("Number", Fraction, float)


# Graphs


def graph_of(n: int, edges: Iterable[tuple[int, int]]) -> Graph:
    """The rows of neighbours of an undirected graph."""
    pairs = {pair for u, v in edges for pair in ((u, v), (v, u))}
    return tuple(tuple(v for v in range(n) if (u, v) in pairs) for u in range(n))


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    """Each edge once."""
    return [(u, v) for u, row in enumerate(graph) for v in row if u < v]


def is_connected(graph: Graph) -> bool:
    """Whether everybody can be reached from vertex 0."""
    reached, ahead = {0}, [0]
    while ahead:
        new = set(graph[ahead.pop()]) - reached
        reached |= new
        ahead.extend(new)
    return len(reached) == len(graph)


@cache
def connected_graphs(n: int) -> tuple[Graph, ...]:
    """All connected graphs on n vertices, one of each isomorphism class."""
    possible = list(combinations(range(n), 2))
    seen: set[frozenset[tuple[int, int]]] = set()
    found = []
    for chosen in product((False, True), repeat=len(possible)):
        edges = frozenset(pair for pair, taken in zip(possible, chosen, strict=True) if taken)
        if edges in seen:
            continue
        seen.update(
            frozenset((min(p[u], p[v]), max(p[u], p[v])) for u, v in edges)
            for p in permutations(range(n))
        )
        graph = graph_of(n, edges)
        if is_connected(graph):
            found.append(graph)
    return tuple(found)


def orbits(graph: Graph, fixed: Collection[int] = ()) -> list[int]:
    """One vertex for each orbit of the automorphisms that keep these vertices where they are."""
    n = len(graph)
    edges = {frozenset(pair) for pair in edges_of(graph)}
    first = list(range(n))
    for p in permutations(range(n)):
        if all(p[v] == v for v in fixed) and all(
            frozenset((p[u], p[v])) in edges for u, v in edges
        ):
            for v in range(n):
                first[v] = min(first[v], p[v])
    return [v for v in range(n) if first[v] == v and v not in fixed]


# Walks


def _moves(
    graph: Graph, v: int, laziness: Fraction, away: Collection[int]
) -> Iterator[tuple[int, Fraction]]:
    """Where a report at v goes in one round; whoever is away keeps what she holds."""
    if v in away or not graph[v]:
        yield v, Fraction(1)
        return
    if laziness:
        yield v, laziness
    if laziness != 1:
        for w in graph[v]:
            yield w, (1 - laziness) / len(graph[v])


def position_laws(
    graph: Graph,
    rounds: int,
    laziness: Fraction = Fraction(0),
    away: Sequence[Collection[int]] = (),
) -> tuple[Law, ...]:
    """The law of the final holder of each person's report; ``away[r]`` are absent in round r.

    Who is absent in the first round has dropped the own report: there is no law.
    """
    laws = []
    for owner in range(len(graph)):
        law = {} if _dropped(owner, rounds, away) else {owner: Fraction(1)}
        for r in range(rounds):
            after: dict[int, Fraction] = {}
            for v, mass in law.items():
                for w, chance in _moves(graph, v, laziness, away[r] if r < len(away) else ()):
                    after[w] = after.get(w, Fraction(0)) + mass * chance
            law = after
        laws.append(tuple(law.get(v, Fraction(0)) for v in range(len(graph))))
    return tuple(laws)


def _dropped(owner: int, rounds: int, away: Sequence[Collection[int]]) -> bool:
    return rounds > 0 and len(away) > 0 and owner in away[0]


def holders(laws: Sequence[Sequence[Fraction]]) -> list[dict[Label, Fraction]]:
    """Labels that are the final holder and nothing else, from any position laws."""
    return [{(v,): mass for v, mass in enumerate(law) if mass} for law in laws]


def labels_of(
    graph: Graph,
    rounds: int,
    laziness: Fraction = Fraction(0),
    away: Sequence[Collection[int]] = (),
    colluders: Collection[int] = (),
) -> list[dict[Label, Fraction]]:
    """The law of each person's label: all paths, each blanked where the colluders do not see it."""
    if not colluders:
        return holders(position_laws(graph, rounds, laziness, away))
    laws = []
    for owner in range(len(graph)):
        paths: dict[tuple[int, ...], Fraction] = {(owner,): Fraction(1)}
        if _dropped(owner, rounds, away):
            paths = {}
        for r in range(rounds):
            absent = away[r] if r < len(away) else ()
            paths = {
                (*path, w): mass * chance
                for path, mass in paths.items()
                for w, chance in _moves(graph, path[-1], laziness, absent)
            }
        law: dict[Label, Fraction] = {}
        for path, mass in paths.items():
            known = {rounds}
            for r, v in enumerate(path):
                if v in colluders:
                    known |= {r - 1, r, r + 1}
            label = tuple(v if r in known else None for r, v in enumerate(path))
            law[label] = law.get(label, Fraction(0)) + mass
        laws.append(law)
    return laws


# Views


class Views:
    """The laws of the views of one round of the protocol, in integers over a common scale.

    A multiset of reports is written as a number in base n + 1, one digit for each item that any
    report can be: to add a report is to add a power of the base. What the ``silent`` hold at the
    end is never handed in.
    """

    def __init__(
        self,
        labels: Labels,
        E: Fraction,
        mode: Mode = "all",
        colluders: Collection[int] = (),
        silent: Collection[int] = (),
    ) -> None:
        if colluders and silent:
            raise ValueError("colluders who know what the silent hold are not enumerated")
        self.labels, self.mode, self.colluders = labels, mode, frozenset(colluders)
        self.silent = frozenset(silent)
        self.n = len(labels)
        # A colluder's report is recognised from the start, and independent of all others: when
        # everything is handed over it tells nothing. It still competes to be the one forwarded.
        self.people = [
            j for j in range(self.n)
            if labels[j] and (mode == "single" or j not in self.colluders)
        ]  # fmt: skip
        self._items: list[Item] = []
        self._places: dict[Item, int] = {}
        truth, lie = E / (E + 1), 1 / (E + 1)
        self._reports: dict[int, dict[int | None, list[tuple[int, int]]]] = {}
        self._scale: dict[int, int] = {}
        for j in self.people:
            chances: dict[int | None, list[tuple[Item, Fraction]]] = {}
            if j in self.colluders:
                chances[None] = [((label, None), mass) for label, mass in labels[j].items()]
            else:
                for x in (0, 1):
                    chances[x] = [
                        ((label, bit), mass * (truth if bit == x else lie))
                        for label, mass in labels[j].items()
                        for bit in (0, 1)
                    ]
            scale = lcm(*(mass.denominator for row in chances.values() for _, mass in row))
            self._scale[j] = scale
            self._reports[j] = {
                x: [(self._power(item), int(mass * scale)) for item, mass in row]
                for x, row in chances.items()
            }
        self._handed: dict[int, list[tuple[object, int]]] = {}
        self._names: dict[Item, int] = {}

    def law(self, bits: Sequence[int]) -> dict[object, Fraction]:
        """The law of what is seen when the people hold these bits."""
        law = {0: 1}
        for j in self.people:
            law = self._with_report(law, j, bits[j])
        scale = prod(self._scale.values()) * self._hand_over_scale
        return {key: Fraction(weight, scale) for key, weight in self._seen(law).items()}

    def worst(self, victim: int, ts: Iterable[Fraction]) -> dict[Fraction, Fraction]:
        """The largest δ of the victim at each t, over the bits of all others.

        Only the victim's 0 against 1 is run through: flipping every bit of a data set and of a
        view turns one direction into the other.
        """
        if victim in self.colluders:
            raise ValueError("a colluder is no victim")
        grid = list(ts)
        if victim not in self.people:  # Nothing of hers is seen.
            return {t: max(Fraction(0), 1 - t) for t in grid}
        best = dict.fromkeys(grid, 0)
        crowds = [{0: 1}]
        for j in self.people:
            if j != victim:
                values = (0,) if j in self.colluders else (0, 1)
                crowds = [self._with_report(law, j, x) for law in crowds for x in values]
        for law in crowds:
            P, Q = (self._seen(self._with_report(law, victim, x)) for x in (0, 1))
            for t in grid:
                p, q = t.numerator, t.denominator
                stick = sum(max(0, q * mass - p * Q.get(key, 0)) for key, mass in P.items())
                best[t] = max(best[t], stick)
        scale = prod(self._scale.values()) * self._hand_over_scale
        return {t: Fraction(best[t], t.denominator * scale) for t in grid}

    def _power(self, item: Item) -> int:
        if item[0][-1] in self.silent:  # never handed in: nothing is added to what is seen
            return 0
        if item not in self._places:
            self._places[item] = len(self._items)
            self._items.append(item)
        return (self.n + 1) ** self._places[item]

    def _with_report(self, law: dict[int, int], j: int, bit: int) -> dict[int, int]:
        longer: dict[int, int] = {}
        for power, chance in self._reports[j][None if j in self.colluders else bit]:
            for key, weight in law.items():
                more = key + power
                longer[more] = longer.get(more, 0) + weight * chance
        return longer

    @property
    def _hand_over_scale(self) -> int:
        """A multiple of every denominator of the hand-over: ∏ c_v divides n! when Σ c_v = n."""
        return 2**self.n * factorial(self.n) if self.mode == "single" else 1

    def _seen(self, law: dict[int, int]) -> Mapping[object, int]:
        if self.mode == "all":
            return law
        seen: dict[object, int] = {}
        for key, weight in law.items():
            if key not in self._handed:
                self._handed[key] = list(self._hand_over(key))
            for view, chance in self._handed[key]:
                seen[view] = seen.get(view, 0) + weight * chance
        return seen

    def _hand_over(self, key: int) -> Iterator[tuple[object, int]]:
        """What may be seen when each person forwards one report, with its (scaled) chance.

        The colluders keep what they recognised of reports that were not forwarded: everything but
        the last holder, unless one of them had sent it there.
        """
        held: dict[int, list[Item]] = {v: [] for v in range(self.n)}
        place = 0
        while key:
            key, copies = divmod(key, self.n + 1)
            label, bit = self._items[place]
            assert label[-1] is not None
            held[label[-1]] += [(label, bit)] * copies
            place += 1
        blank = (None,) * (len(next(iter(self.labels[self.people[0]]))) - 1)
        kept = [self._name(item) for v in self.colluders for item in held[v]]
        choices: list[list[list[int]]] = []
        for v in range(self.n):
            if v in self.colluders or v in self.silent:
                continue
            if held[v]:
                choices.append(
                    [
                        [self._name(item), *self._remembered(held[v][:i] + held[v][i + 1 :])]
                        for i, item in enumerate(held[v])
                    ]
                )
            else:
                choices.append([[self._name(((*blank, v), bit))] for bit in (0, 1)])
        chance = self._hand_over_scale // prod(map(len, choices))
        for choice in product(*choices):
            yield tuple(sorted(chain(kept, *choice))), chance

    def _remembered(self, items: Iterable[Item]) -> Iterator[int]:
        for label, bit in items:
            if any(v is not None for v in label[:-1]):
                sent_by_colluder = label[-2] in self.colluders
                yield self._name((label if sent_by_colluder else (*label[:-1], None), bit))

    def _name(self, item: Item) -> int:
        return self._names.setdefault(item, len(self._names))


def delta(P: Mapping[object, Fraction], Q: Mapping[object, Fraction], t: Fraction) -> Fraction:
    """The hockey-stick divergence of two laws at e^ε = t, the larger of the two directions."""
    return max(
        sum((max(Fraction(0), a - t * second.get(key, 0)) for key, a in first.items()), Fraction(0))
        for first, second in ((P, Q), (Q, P))
    )


def worst_deltas(
    graph: Graph,
    E: Fraction,
    rounds: int,
    laziness: Fraction,
    mode: Mode,
    victim: int,
    ts: Iterable[Fraction],
    *,
    colluders: Collection[int] = (),
    away: Sequence[Collection[int]] = (),
    silent: Collection[int] = (),
) -> dict[Fraction, Fraction]:
    """The exact δ of one victim at each e^ε = t, over all data sets of the others."""
    labels = labels_of(graph, rounds, laziness, away, colluders)
    return Views(labels, E, mode, colluders, silent).worst(victim, ts)


def worst_delta(
    graph: Graph,
    E: Fraction,
    rounds: int,
    laziness: Fraction,
    mode: Mode,
    victim: int,
    t: Fraction,
    *,
    colluders: Collection[int] = (),
    away: Sequence[Collection[int]] = (),
) -> Fraction:
    """The same at one t."""
    found = worst_deltas(
        graph, E, rounds, laziness, mode, victim, [t], colluders=colluders, away=away
    )
    return found[t]


def local_delta(E: Fraction, t: Fraction) -> Fraction:
    """δ of one report that everybody can tell from all others."""
    return (max(Fraction(0), E - t) + max(Fraction(0), 1 - t * E)) / (E + 1)


# One large case: a complete graph on m vertices and a victim who hangs on one of them


def pendant(m: int) -> Graph:
    """Vertices 0, …, m−1 all joined, and the victim m joined to 0 alone."""
    return graph_of(m + 1, [*combinations(range(m), 2), (0, m)])


_ARRIVALS = 60
"""How many others may meet the victim's report; more have a chance below 1e-80."""


def _arrivals(m: int, one: Number) -> list[Number]:
    """The law of Bin(m−1, 1/(m−1)): how many others arrive at vertex 0 in the first round."""
    law = [(one - one / (m - 1)) ** (m - 1)]
    for k in range(min(m - 1, _ARRIVALS)):
        law.append(law[-1] * (m - 1 - k) / ((k + 1) * (m - 2)))
    return law


def pendant_delta(m: int, E: Number, t: Number) -> Number:
    """δ of the victim after one round, all handed over, when all others hold the same bit.

    Her report is at vertex 0, with those of K others. What lies elsewhere is independent of her.
    """
    one = E / E
    total = [0 * one, 0 * one]
    ones, zeros = E / (E + 1), 1 / (E + 1)  # the others hold 1
    for k, chance in enumerate(_arrivals(m, one)):
        crowd = [comb(k, y) * ones**y * zeros ** (k - y) for y in range(k + 1)]
        laws = []
        for yes in (zeros, ones):  # the victim holds 0, then 1
            grown = [*((1 - yes) * c for c in crowd), 0 * one]
            for y, c in enumerate(crowd):
                grown[y + 1] += yes * c
            laws.append(grown)
        for direction in (0, 1):
            P, Q = laws[direction], laws[1 - direction]
            stick = sum((max(0 * one, p - t * q) for p, q in zip(P, Q, strict=True)), 0 * one)
            total[direction] += chance * stick
    return max(total)


def pendant_single_delta(m: int, E: Number, t: Number) -> Number:
    """A lower bound on the same when one report is forwarded: from the bit of vertex 0 alone."""
    one = E / E
    hers = sum((chance / (k + 1) for k, chance in enumerate(_arrivals(m, one))), 0 * one)
    ones, zeros = E / (E + 1), 1 / (E + 1)
    seen = [hers * yes + (1 - hers) * ones for yes in (zeros, ones)]
    return max(
        max(0 * one, p - t * q) + max(0 * one, (1 - p) - t * (1 - q))
        for p, q in (seen, reversed(seen))
    )


def pendant_gap(m: int) -> float:
    """The spectral gap: of −1/(m−1), and of the walk on (victim, vertex 0, all others)."""
    half = 1 / (2 * (m - 1))
    return 1 - (half + sqrt(half * half + (m - 2) / (m * (m - 1))))


def pendant_stationary_collision(m: int) -> float:
    """Σ π² from the degrees m, 1 and m − 1 times m − 1."""
    return (m * m + 1 + (m - 1) ** 3) / (m + (m - 1) ** 2 + 1) ** 2
