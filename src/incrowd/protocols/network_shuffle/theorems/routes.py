"""Routes that measure a walk, and the fewest rounds that are enough.

The exact route is taken while its cost is bearable, then, for a walk whose rounds are all alike,
the spectral one, and on graphs too large for its certificate the one that needs only the spectral
gap. All are rigorous; the assumption of the last one is named. Measured walks are kept, because
planning asks for the same walk many times. See ``docs/theory/network_shuffle.md``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import BudgetInfeasible, NumericalFloor
from incrowd.graphs.graph import Graph
from incrowd.protocols.network_shuffle.theorems.mixing import (
    SLACKS,
    Mixing,
    Progress,
    Route,
    measure,
    measure_colluding,
    work,
)
from incrowd.protocols.network_shuffle.theorems.walk import Doubles, Walk

if TYPE_CHECKING:
    from incrowd.graphs.spectral_bounds import Modes
    from incrowd.protocols.network_shuffle.theorems.attendance import Attendance

_BEARABLE = 1e12
"""Multiplications of the exact route: some minutes on two cores."""
_CERTIFIED = 32
"""Exact rounds behind the spectral certificate, which then covers twice as many and more."""
_FOLLOWED = 512
"""Rounds beyond which the spectral route says the same as following every one of them."""
_KEPT = 24
_WINDOWS_KEPT = 1 << 22
"""People times rounds whose mixing is kept: about half a gigabyte."""
_MOST_ROUNDS = 1 << 24
_MOST_EXACT = 1 << 12
"""Rounds after which a walk that has not mixed is not followed further round by round."""
_FIRST_WINDOW = 16

_GAP = (
    "the second eigenvalue is the one that Lanczos iteration found: it has no certificate on a "
    "graph this large"
)

_measured: OrderedDict[Any, Mixing] = OrderedDict()
_windows: OrderedDict[Any, dict[int, Mixing]] = OrderedDict()
_modes: dict[Graph, Modes] = {}


def mix(walk: Walk, rounds: int, progress: Progress | None = None) -> Mixing:
    """Return the mixing of a walk after these rounds, by the best route that is bearable."""

    def measured() -> Mixing:
        followed = rounds <= _FOLLOWED and bearable(walk, rounds)
        if followed or not _reversible(walk):
            return measure(walk, [rounds], progress)[rounds]
        if bearable(walk, _CERTIFIED) and rounds >= 2 * _CERTIFIED:
            return _from_modes(_certified(walk.graphs[0], progress), walk, rounds)
        return _from_gap(walk, rounds)

    return _kept((walk.key(), rounds), measured)


def mix_colluding(
    walk: Walk, rounds: int, colluders: NDArray[np.intp], progress: Progress | None = None
) -> Mixing:
    """Return the mixing when these people collude, by the exact route."""
    key = (walk.key(), rounds, colluders.tobytes())
    return _kept(key, lambda: measure_colluding(walk, rounds, colluders, progress))


def mix_doubtful(walk: Walk, rounds: int, attendance: Attendance) -> Mixing:
    """Return the mixing when some devices were not on to the end, by the exact route."""
    from incrowd.protocols.network_shuffle.theorems.sandwich import measure_doubtful

    key = (walk.key(), rounds, attendance.table.tobytes(), attendance.reported.tobytes())
    return _kept(key, lambda: measure_doubtful(walk, rounds, attendance))


def bearable(walk: Walk, rounds: int) -> bool:
    """Whether the exact route can be taken at all."""
    return work(walk, rounds) <= _BEARABLE


def _kept(key: Any, make: Callable[[], Mixing]) -> Mixing:
    """Return the mixing of this key, made unless it is one of the latest."""
    mixing = _measured.pop(key, None)
    _measured[key] = make() if mixing is None else mixing
    while len(_measured) > _KEPT:
        _measured.popitem(last=False)
    return _measured[key]


def _reversible(walk: Walk) -> bool:
    """Whether one reversible walk on one connected graph tends to its stationary law."""
    steady = walk.steady and walk.graphs[0].is_connected
    return steady and (walk.laziness > 0 or not walk.graphs[0].is_bipartite)


def _certified(graph: Graph, progress: Progress | None = None) -> Modes:
    from incrowd.graphs.spectral_bounds import modes

    if graph not in _modes:
        _modes.clear()  # Eigenvectors are large, and one graph is planned at a time.
        _modes[graph] = modes(graph, rounds=_CERTIFIED, progress=progress)
    return _modes[graph]


def _from_modes(found: Modes, walk: Walk, rounds: int) -> Mixing:
    once, twice = (found.spread(times * rounds, walk.laziness) for times in (1, 2))
    return _from_spread("spectral", walk, rounds, once, twice)


def _from_gap(walk: Walk, rounds: int) -> Mixing:
    # |P(v)/π(v) − 1| ≤ (1 − gap)^t/√(π(j)π(v)).
    graph = walk.graphs[0]
    slowest = 1 - graph.spectral_gap(walk.laziness)
    root = np.sqrt(1 / graph.stationary())
    once, twice = (root * slowest ** (times * rounds / 2) for times in (1, 2))
    return _from_spread("gap", walk, rounds, once, twice, (_GAP,))


def _from_spread(
    route: Route,
    walk: Walk,
    rounds: int,
    spread: Doubles,
    doubled: Doubles,
    assumptions: tuple[str, ...] = (),
) -> Mixing:
    """From |P_j(v)/π(v) − 1| ≤ c_j·c_v, and the same after twice as many rounds.

    The excess is at most Σ π(v)·(c_j·c_v − κ)₊, and at most χ²/(4κ), and at most √χ²/2, where
    χ² = Σ π(v)·(P_j(v)/π(v) − 1)² is the diagonal after twice as many rounds.
    """
    stationary = walk.graphs[0].stationary()
    order = np.argsort(spread)[::-1]
    largest = float(spread[order[0]])
    weight = np.concatenate([[0.0], np.cumsum(stationary[order])])
    reach = np.concatenate([[0.0], np.cumsum((stationary * spread)[order])])
    square = doubled**2
    excess = np.empty((walk.n, 1, SLACKS.size))
    for level, slack in enumerate(SLACKS):
        # How many v have c_j·c_v above κ, in the order of falling c_v.
        with np.errstate(divide="ignore"):
            count = np.searchsorted(-spread[order], -slack / np.maximum(spread, 1e-300))
        # The difference of two sums: charged with their rounding.
        direct = spread * reach[count] * (1 + 1e-12) - slack * weight[count] * (1 - 1e-12)
        bound = np.minimum(direct, np.sqrt(square) / 2)
        if slack > 0:
            bound = np.minimum(bound, square / (4 * slack))
        excess[:, 0, level] = np.clip(bound * (1 + 1e-12), 0.0, 1.0)
    root = np.sqrt(np.sum(stationary**2)) + np.sqrt(stationary.max() * square)
    return Mixing(
        route=route,
        rounds=rounds,
        crowds=walk.crowds,
        excess=excess,
        separation=np.clip(spread * largest * (1 + 1e-12), 0.0, 1.0)[:, None],
        collision=np.minimum(root**2 * (1 + 1e-12), 1.0),
        assumptions=assumptions,
    )


def fewest_rounds(
    walk: Walk, enough: Callable[[Mixing], bool], progress: Progress | None = None
) -> int:
    """Return the fewest rounds that are ``enough``, in windows that double; raise when none are.

    Mixing is taken to improve from one round to the next inside the window where it becomes enough.
    """
    if enough(stationary(walk)):
        low, width = 0, _FIRST_WINDOW
        while bearable(walk, low + width) and low < _MOST_EXACT:
            window = range(low + 1, low + width + 1)
            found = _window(walk, window, progress)
            if enough(found[window[-1]]):
                best = _first(found.__getitem__, enough, low, window[-1])
                _kept((walk.key(), best), partial(found.__getitem__, best))
                return best
            low, width = low + width, 2 * width
        if _reversible(walk):
            return _search(walk, enough, low, progress)
    raise BudgetInfeasible(
        "no number of rounds comes close enough to the trusted shuffler on this graph: the walks "
        "never mix (on a bipartite graph, set laziness above 0; give everyone random peers)"
    )


def _window(walk: Walk, window: range, progress: Progress | None) -> dict[int, Mixing]:
    # Kept, since planning for another ε0 asks for the same ones.
    key, room = (walk.key(), window), max(0, _WINDOWS_KEPT - len(window) * walk.n)
    if key not in _windows:
        while sum(each.n for kept in _windows.values() for each in kept.values()) > room:
            _windows.popitem(last=False)
        _windows[key] = measure(walk, window, progress)
    return _windows[key]


def _search(
    walk: Walk, enough: Callable[[Mixing], bool], low: int, progress: Progress | None
) -> int:
    # Beyond the exact route: double until it is enough, then close in.
    high = max(2 * _CERTIFIED, low)
    while not enough(mix(walk, high, progress)):
        low, high = high, 2 * high
        if high > _MOST_ROUNDS:
            raise NumericalFloor(
                f"more than {_MOST_ROUNDS} rounds would be needed: give everyone random peers"
            )
    return _first(lambda number: mix(walk, number, progress), enough, low, high)


def _first(
    mixing: Callable[[int], Mixing], enough: Callable[[Mixing], bool], low: int, high: int
) -> int:
    """Return the first number of rounds above ``low`` that is enough, given that ``high`` is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(mixing(middle)) else (middle, high)
    return high


def stationary(walk: Walk) -> Mixing:
    """Return the mixing of endless rounds: everyone perfectly mixed inside their crowd."""
    graph, crowds = walk.graphs[0], walk.crowds
    weight = np.bincount(crowds, weights=graph.degrees).clip(min=1)
    law = graph.degrees / weight[crowds]
    return Mixing(
        route="stationary",
        rounds=0,
        crowds=crowds,
        excess=np.zeros((walk.n, 1, SLACKS.size)),
        separation=np.zeros((walk.n, 1)),
        collision=np.asarray(np.bincount(crowds, weights=law**2)[crowds], np.float64),
    )
