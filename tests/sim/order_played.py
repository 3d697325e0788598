"""Order-private shuffles of a few people whose reports say whose they are, and their exact law.

Person i holds category i of n and reports it through randomized response with ε0 = 30, which errs
once in 10¹³, so that a released table says whose report stands at each place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
from scipy.stats import chisquare

from incrowd.protocols.order_shuffle import OrderShuffle, groupings
from incrowd.protocols.runtime.actor import Address
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.delivery import Backoff
from incrowd.randomizers import KRR
from incrowd.sim import Faults
from incrowd.tasks import Placed, Release
from tests.sim.watched import Change, WatchedPlay

TIMING = Timing(timeout=120.0, backoff=Backoff(cap=8.0))


def truthful(n: int) -> KRR:
    """A randomizer that changes an answer once in 10¹³ times."""
    return KRR(categories=max(2, n), epsilon=30.0)


def own(n: int = 7, groups: Sequence[Sequence[int]] | None = None, **settings: Any) -> OrderShuffle:
    """Everybody's own number; by default people stand in a line, in groups with their neighbours.

    A place is a person.
    """
    near = [[each for each in (p - 1, p, p + 1) if 0 <= each < n] for p in range(n)]
    found = groupings.from_lists(near if groups is None else groups, n)
    chosen = settings if "theta" in settings else {"alpha": 1.0} | settings
    return OrderShuffle(truthful(n), groups=found, **chosen)


KINDS = ("people", "points", "groups")


def labels(person: int) -> str:
    """The groups of somebody in the line: three, each of three neighbours."""
    return f"g{person}; g{person + 1}; g{person + 2}"


def placed(kind: str, n: int = 7, **settings: Any) -> tuple[OrderShuffle, Any]:
    """The same line of people with places of each kind, and what they hold, encoded."""
    if kind == "people":
        return own(n, **settings), np.arange(n)
    chosen = settings if "theta" in settings else {"alpha": 1.0} | settings
    categories = tuple(map(str, range(max(2, n))))
    if kind == "points":
        task = Release(categories=categories, coordinates=("x", "y"), complete=True)
        cells = [[str(person), str(2.0 * person), "-1.5"] for person in range(n)]
        protocol = OrderShuffle(truthful(n), n=n, radius=2.5, **chosen)
    else:
        task = Release(categories=categories, groups="near", complete=True)
        cells = [[str(person), labels(person)] for person in range(n)]
        protocol = OrderShuffle(truthful(n), n=n, **chosen)
    return protocol.bound_to(task), task.encode(task.rows(cells))


# The law.


def law(order: Sequence[int], theta: float, distance: str = "kendall") -> dict[Any, float]:
    """How likely each list of whose report each person gets is, by summing over all of them.

    With the reports laid along the order, weights fall with the pairs that changed sides, or with
    how many people have another's report.
    """
    n = len(order)
    rank = {person: place for place, person in enumerate(order)}

    def weight(sources: tuple[int, ...]) -> float:
        if distance == "hamming":
            far = sum(source != person for person, source in enumerate(sources))
        else:
            along = [rank[sources[person]] for person in order]
            far = sum(one > two for one, two in combinations(along, 2))
        return math.exp(-theta * far)

    weights = {sources: weight(sources) for sources in permutations(range(n))}
    total = sum(weights.values())
    return {sources: each / total for sources, each in weights.items()}


def p_value(seen: Counter[Any], due: Mapping[Any, float]) -> float:
    """Pearson's test of what was seen against a law, cells below 5 expected pooled."""
    assert set(seen) <= set(due)
    runs = seen.total()
    large = [each for each in due if due[each] * runs >= 5]
    observed = [seen[each] for each in large]
    expected = [due[each] * runs for each in large]
    if len(large) < len(due):
        observed.append(runs - sum(observed))
        expected.append(runs - sum(expected))
    return float(chisquare(observed, expected).pvalue)


# Runs.


class Shuffled(WatchedPlay):
    """A shuffle that was played by ``sim``, with what everybody was told and said."""

    def __init__(
        self,
        protocol: OrderShuffle,
        seed: int = 0,
        faults: Faults | None = None,
        change: Change = lambda makers: makers,
        values: Any = None,
        sealers: Mapping[Address, Any] | None = None,
    ) -> None:
        told = np.arange(protocol.n) if values is None else values
        super().__init__(protocol, told, TIMING, seed, faults, change, sealers)


def check(protocol: OrderShuffle, found: Placed) -> None:
    """What must hold of a table of everybody's own number, whatever happened."""
    (reports,) = found.rounds
    assert len(set(reports.tolist())) == len(reports), "a report was counted twice"
    assert found.who.tolist() == sorted(set(found.who.tolist()))
    assert set(reports.tolist()) == set(found.who.tolist()), "whose report came has a place"
    assert found.at.tolist() == list(range(len(found.who)))
    assert found.sent == protocol.n
    if found.points is not None:
        assert found.points.tolist() == [[2.0 * person, -1.5] for person in found.who]
    if found.groups is not None:
        assert found.groups == tuple(map(labels, found.who.tolist()))
