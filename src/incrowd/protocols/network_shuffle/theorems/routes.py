"""Which route measures a walk, and how many rounds are enough.

The exact route is taken while its cost is bearable, then, for a walk whose rounds are all alike,
the spectral one, and on graphs too large for its certificate the one that needs only the spectral
gap.
All are rigorous; what the last one takes for granted is named. Measured walks are kept, because
planning asks for the same walk many times. See ``docs/theory/network_shuffle.md``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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
"""Multiplications that the exact route may take: some minutes on two cores."""
_CERTIFIED = 32
"""Exact rounds behind the spectral certificate, which then covers twice as many and more."""
_FOLLOWED = 512
"""Beyond so many rounds the spectral route says the same as following every one of them."""
_KEPT = 24
_WINDOWS_KEPT = 1 << 22
"""People times rounds whose mixing is kept: about half a gigabyte."""
_MOST_ROUNDS = 1 << 24
_MOST_EXACT = 1 << 12
"""A walk that has not mixed after so many rounds is not followed further round by round."""
_FIRST_WINDOW = 16

_GAP = (
    "the second eigenvalue is the one that Lanczos iteration found: it has no certificate on a "
    "graph this large"
)

_measured: OrderedDict[Any, Mixing] = OrderedDict()
_windows: OrderedDict[Any, dict[int, Mixing]] = OrderedDict()
_modes: dict[Graph, Modes] = {}


def mix(walk: Walk, rounds: int, progress: Progress | None = None) -> Mixing:
    """How well a walk of so many rounds has mixed, by the best route that is bearable."""
    key = (walk.key(), rounds)
    if key in _measured:
        _measured.move_to_end(key)
        return _measured[key]
    followed = rounds <= _FOLLOWED and work(walk, rounds) <= _BEARABLE
    if followed or not _reversible(walk):
        return _keep(key, measure(walk, [rounds], progress)[rounds])
    graph = walk.graphs[0]
    if work(walk, _CERTIFIED) <= _BEARABLE and rounds >= 2 * _CERTIFIED:
        found = _certified(graph, progress)
        return _keep(key, _from_modes(found, walk, rounds))
    return _keep(key, _from_gap(walk, rounds))


def mix_colluding(
    walk: Walk, rounds: int, colluders: NDArray[np.intp], progress: Progress | None = None
) -> Mixing:
    """The exact route when these people collude."""
    key = (walk.key(), rounds, colluders.tobytes())
    if key in _measured:
        return _measured[key]
    return _keep(key, measure_colluding(walk, rounds, colluders, progress))


def mix_doubtful(walk: Walk, rounds: int, attendance: Attendance) -> Mixing:
    """The exact route when some devices were not on to the end."""
    from incrowd.protocols.network_shuffle.theorems.sandwich import measure_doubtful

    key = (walk.key(), rounds, attendance.table.tobytes(), attendance.reported.tobytes())
    if key in _measured:
        return _measured[key]
    return _keep(key, measure_doubtful(walk, rounds, attendance))


def bearable(walk: Walk, rounds: int) -> bool:
    """Whether the exact route can be taken at all."""
    return work(walk, rounds) <= _BEARABLE


def _keep(key: Any, mixing: Mixing) -> Mixing:
    _measured[key] = mixing
    while len(_measured) > _KEPT:
        _measured.popitem(last=False)
    return mixing


def _reversible(walk: Walk) -> bool:
    """Whether one reversible walk on one connected graph tends to its stationary law."""
    if not walk.steady or not walk.graphs[0].is_connected:
        return False
    return walk.laziness > 0 or not walk.graphs[0].is_bipartite


def _certified(graph: Graph, progress: Progress | None = None) -> Modes:
    from incrowd.graphs.spectral_bounds import modes

    if graph not in _modes:
        _modes.clear()  # Eigenvectors are large, and one graph is planned at a time.
        _modes[graph] = modes(graph, rounds=_CERTIFIED, progress=progress)
    return _modes[graph]


def _from_modes(found: Modes, walk: Walk, rounds: int) -> Mixing:
    return _from_spread(
        "spectral",
        walk,
        rounds,
        found.spread(rounds, walk.laziness),
        found.spread(2 * rounds, walk.laziness),
    )


def _from_gap(walk: Walk, rounds: int) -> Mixing:
    """|P(v)/π(v) − 1| ≤ (1 − gap)^t/√(π(j)π(v))."""
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
    """The fewest rounds that are ``enough``, in windows that double; raises when none are.

    Mixing is taken to improve from one round to the next inside the window where it becomes enough.
    """
    if enough(stationary(walk)):
        low, width = 0, _FIRST_WINDOW
        while work(walk, low + width) <= _BEARABLE and low < _MOST_EXACT:
            window = range(low + 1, low + width + 1)
            best = _first_in(_window(walk, window, progress), enough)
            if best is not None:
                _keep((walk.key(), best.rounds), best)
                return best.rounds
            low, width = low + width, 2 * width
        if _reversible(walk):
            return _search(walk, enough, low, progress)
    raise BudgetInfeasible(
        "no number of rounds comes close enough to the trusted shuffler on this graph: the walks "
        "never mix (on a bipartite graph, set laziness above 0; give everyone random peers)"
    )


def _window(walk: Walk, window: range, progress: Progress | None) -> dict[int, Mixing]:
    """All rounds of a window; kept, since planning for another ε0 asks for the same ones."""
    key = (walk.key(), window)
    if key not in _windows:
        while _windows and len(window) * walk.n + _kept_rows() > _WINDOWS_KEPT:
            _windows.popitem(last=False)
        _windows[key] = measure(walk, window, progress)
    return _windows[key]


def _kept_rows() -> int:
    return sum(mixing.n for window in _windows.values() for mixing in window.values())


def _first_in(found: dict[int, Mixing], enough: Callable[[Mixing], bool]) -> Mixing | None:
    """The first of a window that is enough, if its last one is."""
    last = max(found)
    if not enough(found[last]):
        return None
    return found[_first(lambda number: enough(found[number]), min(found) - 1, last)]


def _search(
    walk: Walk, enough: Callable[[Mixing], bool], low: int, progress: Progress | None
) -> int:
    """Beyond the exact route: double until it is enough, then close in."""
    high = max(2 * _CERTIFIED, low)
    while not enough(mix(walk, high, progress)):
        low, high = high, 2 * high
        if high > _MOST_ROUNDS:
            raise NumericalFloor(
                f"more than {_MOST_ROUNDS} rounds would be needed: give everyone random peers"
            )
    return _first(lambda number: enough(mix(walk, number, progress)), low, high)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number above ``low`` that holds, given that ``high`` does."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def stationary(walk: Walk) -> Mixing:
    """What endless rounds would give: everyone perfectly mixed inside their crowd."""
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
