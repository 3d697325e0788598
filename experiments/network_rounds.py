"""How many rounds network shuffling needs on real graphs: the long computation.

    python -m experiments.network_shuffle rounds

For each graph, with and without random peers, the ε of **every person** against the curator at many
numbers of rounds t, for the simple walk and the lazy one. All are proven upper bounds. Routes:

* ``exact``: all walks are propagated round by round, in one sweep for all t;
* ``mixed``: a lazy walk of T rounds is a simple one of K rounds, K binomial. What sticks out of the
  stationary law is convex in the law, and falls from round to round, so the mean of the exact
  values of the simple walk over K bounds that of the lazy one, and one sweep serves both walks;
* ``spectral``: leading eigenpairs with a certified rest, for many rounds (docs/theory/modes.md).

A later view is a function of an earlier one and of fresh randomness, as the curator could move the
reports on by itself: so nobody's ε grows with t, and each person's bound is the least one of all
rounds up to t, whichever route it comes from.

Results are kept under ``build/experiments``, by graph and parameters, so that a second run only
reads them.
"""

from __future__ import annotations

import hashlib
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.network_graphs import with_peers
from incrowd.graphs import Graph
from incrowd.graphs.spectral_bounds import Modes, modes
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.network_shuffle import accountant
from incrowd.protocols.network_shuffle.diagnostics import upper_quantile
from incrowd.protocols.network_shuffle.theorems import routes
from incrowd.protocols.network_shuffle.theorems.mixing import SLACKS, Mixing, measure
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.randomizers import Generic

__all__ = [
    "BUILD",
    "CASES",
    "LAZY",
    "SHARES",
    "Case",
    "Curve",
    "Store",
    "binomial_mixture",
    "compute",
    "recorded",
]

BUILD = Path(__file__).resolve().parent.parent / "build" / "experiments"
EPSILON, DELTA = 1.0, 1e-6
LAZY = 0.5
WITHIN = 1.05
"""Within this factor of the trusted shuffler's ε a person counts as mixed."""
SHARES: Mapping[str, float] = {"median": 0.5, "99th percentile": 0.99, "worst": 1.0}

CERTIFIED = 32
"""Degree of the spectral certificate, which is good from twice as many rounds on."""
_MEASURED = ("excess", "separation", "collision")
_MOST = 1 << 16
_VERSION = 1

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One graph, and how its walks are followed.

    ``exact`` and ``lazy`` are the numbers of rounds of the simple and the lazy walk that are
    propagated: none where they would be far too few to hide anybody. ``spectral``: go on by the
    spectral route.
    """

    name: str
    peers: int
    exact: int = 0
    lazy: int = 0
    spectral: bool = True


CASES = (
    Case("twitch_de", 0, exact=84, lazy=160),
    Case("twitch_de", 3, exact=36, lazy=40),
    Case("deezer_europe", 3, exact=24),
    Case("enron_email", 3, exact=24),
    Case("facebook_page", 3),
    Case("facebook_page", 0),
    Case("deezer_europe", 0),
    Case("enron_email", 0),
)


@dataclass(frozen=True, eq=False)
class Curve:
    """Everyone's ε at rising numbers of rounds, and by which route each row is known.

    Two rows may be of the same number of rounds, by two routes.
    """

    rounds: NDArray[np.int64]
    route: NDArray[np.str_]
    epsilon: Doubles
    """One column per person."""
    trusted: float
    """ε behind a trusted shuffler."""

    def at(self, share: float) -> Doubles:
        """In each row, an ε that this share of people does not exceed."""
        return np.array([upper_quantile(row, share) for row in self.epsilon])

    def needed(self, share: float) -> tuple[int, str] | None:
        """The fewest rounds at which this share of people is mixed, and the route; or none."""
        enough = np.flatnonzero(self.at(share) <= WITHIN * self.trusted)
        return (int(self.rounds[enough[0]]), str(self.route[enough[0]])) if enough.size else None


@dataclass(frozen=True)
class Store:
    """Where curves are kept, and where graphs come from."""

    directory: Path | None
    """None: nothing is kept."""
    load: Callable[[str], Graph]

    def graph(self, case: Case) -> Graph:
        """The graph of a case."""
        return with_peers(self.load, case.name, case.peers)

    def get(self, case: Case, laziness: float) -> Curve | None:
        """The curve, if it has been computed."""
        path = self._curve_path(case, laziness)
        if path is None or not path.exists():
            return None
        with np.load(path) as stored:
            return Curve(
                stored["rounds"], stored["route"], stored["epsilon"], float(stored["trusted"])
            )

    def put(self, case: Case, laziness: float, curve: Curve) -> None:
        """Keep a curve."""
        path = self._curve_path(case, laziness)
        if path is not None:
            _write(
                path, rounds=curve.rounds, route=curve.route, epsilon=curve.epsilon,
                trusted=curve.trusted,
            )  # fmt: skip

    def sweep(self, case: Case, laziness: float, last: int) -> dict[int, Mixing]:
        """How well the walks have mixed after rounds up to the last; propagated if not kept.

        Kept in single precision, rounded up.
        """
        rounds = recorded(last)
        walk = Walk((self.graph(case),), laziness)
        clock = _Clock(f"{case.name}, {case.peers} peers, laziness {laziness:g}")
        path = self._path("sweep", case, laziness, rounds, SLACKS.tolist())
        if path is None:
            return measure(walk, rounds, clock)
        if not path.exists():
            measured = measure(walk, rounds, clock)
            _write(
                path,
                **{
                    f"{what}-{number}": _single(getattr(measured[number], what))
                    for number in rounds
                    for what in _MEASURED
                },
            )
        with np.load(path) as stored:
            return {
                number: Mixing(
                    "exact",
                    number,
                    walk.crowds,
                    *(stored[f"{what}-{number}"].astype(np.float64) for what in _MEASURED),
                )
                for number in rounds
            }

    def certificate(self, case: Case) -> Modes:
        """The spectral certificate of the graph; computed if it is not kept."""
        path = self._path("modes", case, CERTIFIED)
        names = [each.name for each in fields(Modes)]
        if path is None or not path.exists():
            clock = _Clock(f"{case.name}, {case.peers} peers, certificate")
            found = modes(self.graph(case), rounds=CERTIFIED, progress=clock)
            if path is None:
                return found
            _write(path, **{name: getattr(found, name) for name in names})
        with np.load(path) as stored:
            parts = {name: stored[name] for name in names}
        return Modes(**{name: part if part.ndim else part.item() for name, part in parts.items()})

    def _path(self, what: str, case: Case, *parameters: object) -> Path | None:
        if self.directory is None:
            return None
        graph = self.graph(case)
        digest = hashlib.sha256(graph.indptr.tobytes() + graph.indices.tobytes())
        digest.update(repr((*parameters, _VERSION)).encode())
        key = digest.hexdigest()[:12]
        return self.directory / f"{what}-{case.name}-{case.peers}-{key}.npz"

    def _curve_path(self, case: Case, laziness: float) -> Path | None:
        parameters = EPSILON, DELTA, CERTIFIED, SLACKS.tolist()
        return self._path("curve", case, case, laziness, *parameters)


@dataclass(eq=False)
class Sought:
    """Evaluates curves where they are wanted, each number of rounds once per route."""

    graph: Graph
    known: dict[tuple[int, str], Doubles] = field(default_factory=dict)

    @cached_property
    def trusted(self) -> float:
        return blanket_profile(Generic(epsilon=EPSILON), self.graph.n).epsilon(DELTA)

    def enough(self, route: str, mixing: Mixing, share: float) -> bool:
        """Whether so many people are mixed, by this route."""
        key = mixing.rounds, route
        if key not in self.known:
            profile = accountant.people_profile(mixing, Generic(epsilon=EPSILON), single=False)
            self.known[key] = profile.per_person(DELTA)
        return upper_quantile(self.known[key], share) <= WITHIN * self.trusted

    def follow(
        self, route: str, candidates: Sequence[int], mixing_at: Callable[[int], Mixing]
    ) -> bool:
        """Evaluate a grid of the rising candidates up to where all people are mixed.

        In between, look for where each share of people is. Returns whether all are in the end.
        """
        coarse, found = _grid(candidates), False
        for share in SHARES.values():

            def enough(number: int, share: float = share) -> bool:
                return self.enough(route, mixing_at(number), share)

            high = next((number for number in coarse if enough(number)), None)
            found = high is not None
            if high is not None:
                low = max((number for number in coarse if number < high), default=0)
                fine = [number for number in candidates if low < number < high]
                bisect_left(fine, True, key=enough)
        return found

    def curve(self) -> Curve:
        """All that was found; nobody's ε grows with the rounds."""
        rows = sorted(self.known)
        epsilon = np.minimum.accumulate([self.known[row] for row in rows], axis=0)
        rounds, route = (np.array(each) for each in zip(*rows, strict=True))
        return Curve(rounds, route, epsilon, self.trusted)


def compute(case: Case, store: Store, walks: Sequence[float] = (0.0, LAZY)) -> dict[float, Curve]:
    """The curves of walks of these lazinesses, read if they are there."""
    found = {laziness: store.get(case, laziness) for laziness in walks}
    for laziness in walks:
        if found[laziness] is None:
            curve = found[laziness] = _sought(case, store, laziness).curve()
            store.put(case, laziness, curve)
    return {laziness: curve for laziness, curve in found.items() if curve is not None}


def _sought(case: Case, store: Store, laziness: float) -> Sought:
    sought = Sought(store.graph(case))
    if not (case.exact and _exact(sought, case, store, laziness)) and case.spectral:
        _spectral(sought, case, store, laziness)
    return sought


def _exact(sought: Sought, case: Case, store: Store, laziness: float) -> bool:
    """The exact route, or that which mixes it; whether no other one can do better."""
    last = case.lazy if laziness else case.exact
    if last:
        measured = store.sweep(case, laziness, last)
        return sought.follow("exact", list(measured)[1:], measured.__getitem__)
    measured = store.sweep(case, 0.0, case.exact)
    # Much later, rounds that were not followed would count.
    moves = round(case.exact / (1 - laziness))
    sought.follow(
        "mixed", range(1, moves), lambda number: binomial_mixture(measured, laziness, number)
    )
    return False


def _spectral(sought: Sought, case: Case, store: Store, laziness: float) -> None:
    certificate, walk = store.certificate(case), Walk((store.graph(case),), laziness)

    def mixing_at(number: int) -> Mixing:
        return routes._from_modes(certificate, walk, number)

    high = 2 * certificate.least_rounds
    while not sought.enough("spectral", mixing_at(high), 1.0):
        high *= 2
        if high > _MOST:
            raise LookupError(f"{case.name} has not mixed after {_MOST} rounds")
    sought.follow("spectral", range(certificate.certified_rounds, high + 1), mixing_at)


def binomial_mixture(found: Mapping[int, Mixing], laziness: float, rounds: int) -> Mixing:
    """A bound on a lazy walk of so many rounds, from simple ones, of which one is of no round.

    Between two numbers of rounds that are known, the smaller one bounds.
    """
    from scipy.stats import binom

    known = sorted(found)
    before = np.array([0.0, *binom.cdf(np.array(known[1:]) - 1, rounds, 1 - laziness), 1.0])
    weights = np.diff(before) * (1 + 1e-9) + 1e-300
    parts = [found[number] for number in known]

    def mean(of: Callable[[Mixing], Doubles]) -> Doubles:
        total = np.zeros_like(of(parts[0]))
        for weight, part in zip(weights.tolist(), parts, strict=True):
            total += weight * of(part)
        return np.minimum(total, 1.0)

    return Mixing(
        route="exact",
        rounds=rounds,
        crowds=parts[0].crowds,
        excess=mean(lambda part: part.excess),
        separation=mean(lambda part: part.separation),
        collision=mean(lambda part: part.collision),
    )


def recorded(last: int) -> list[int]:
    """After which rounds all walks are compared, which takes as long as a round.

    Every round at first, later every second and fourth.
    """
    rounds = [*range(48), *range(48, 96, 2), *range(96, last + 1, 4)]
    return [number for number in rounds if number < last] + [last]


def _grid(candidates: Sequence[int]) -> list[int]:
    """Candidates whose ratio is at least 1.15, and the last one."""
    chosen: list[int] = []
    for number in candidates:
        if not chosen or number >= 1.15 * chosen[-1]:
            chosen.append(number)
    return sorted({*chosen, candidates[-1]})


def _write(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, **arrays)
    partial.replace(path)


def _single(values: Doubles) -> NDArray[np.float32]:
    """In single precision, rounded up; zero stays zero."""
    above = np.nextafter(values.astype(np.float32), np.float32(np.inf))
    return np.where(values > 0, above, np.float32(0))


class _Clock:
    """Tells on standard error how far a sweep is, every half minute."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.begun = self.told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.told >= 30 or done == total:
            self.told = now
            spent = now - self.begun
            print(f"{self.what}: {done} of {total}, {spent:.0f} s", file=sys.stderr, flush=True)
