"""Randomizers beside their peers: people per second, client and server, in one run.

Peers: multi-freq-ldpy and pure-ldp, each called as its own documentation does, one person at a
time on the client side. Where there is no peer (PrivUnit), the peers are the same mechanism,
written as a plain loop over vectors with numpy. All contenders use one thread; rates are per
second of processor time, so that a busy machine changes them little. Compilation is excluded by a
warm-up, and every number is the best of several rounds taken in turns. Ratios are against the
fastest peer.

    pip install -r requirements/bench.txt
    python benchmarks/randomizers.py [--format json] [--people 100000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv

from incrowd.randomizers import KRR, OLH, OUE, HadamardResponse, PrivUnit
from incrowd.randomizers.privunit import best_cap

CATEGORIES = 128
EPSILON = 1.0
DIMENSION = 200
SLOW_PEOPLE = 2_000
"""Crowd of the peers' hashing servers and of the plain loop, which take too long for more."""

Work = Callable[[], object]


@dataclass
class Timed:
    """One piece of work on so many people, and the best rate seen."""

    work: Work
    people: int
    rate: float = 0.0

    def run(self) -> None:
        """Do it once."""
        start = time.process_time()
        self.work()
        self.rate = max(self.rate, self.people / (time.process_time() - start))


@dataclass
class Case:
    """Our work, the peers' work, and the ratio that is aimed at (none: only shown)."""

    name: str
    side: str
    ours: Timed
    peers: dict[str, Timed]
    target: float | None
    contenders: list[Timed] = field(init=False)

    def __post_init__(self) -> None:
        self.contenders = [self.ours, *self.peers.values()]

    @property
    def ratio(self) -> float:
        """Ours over the fastest peer."""
        return self.ours.rate / max(peer.rate for peer in self.peers.values())

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; none without one."""
        return None if self.target is None else self.ratio >= self.target

    def as_dict(self) -> dict[str, Any]:
        """The case as JSON shows it."""
        return {
            "name": self.name,
            "side": self.side,
            "ours_per_second": self.ours.rate,
            "peers_per_second": {name: peer.rate for name, peer in self.peers.items()},
            "ratio": self.ratio,
            "target": self.target,
            "holds": self.holds,
        }


def response_cases(values: NDArray[np.int64], rng: np.random.Generator) -> list[Case]:
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer

    ours = KRR(epsilon=EPSILON, categories=CATEGORIES)
    client = DEClient(EPSILON, CATEGORIES, index_mapper=int)
    people = values.tolist()
    reports = ours.randomize(values, rng)
    sent = reports.tolist()
    n = len(people)
    return [
        Case(
            "k-RR",
            "client",
            Timed(lambda: ours.randomize(values, rng), n),
            {
                "multi-freq-ldpy": Timed(
                    lambda: [GRR_Client(x, CATEGORIES, EPSILON) for x in people], n
                ),
                "pure-ldp": Timed(lambda: [client.privatise(x) for x in people], n),
            },
            20,
        ),
        Case(
            "k-RR",
            "server",
            Timed(lambda: ours.estimate(reports), n),
            {
                "multi-freq-ldpy": Timed(lambda: GRR_Aggregator_MI(sent, CATEGORIES, EPSILON), n),
                "pure-ldp": Timed(
                    lambda: serve(DEServer(EPSILON, CATEGORIES, index_mapper=int), sent), n
                ),
            },
            20,
        ),
    ]


def unary_cases(values: NDArray[np.int64], rng: np.random.Generator) -> list[Case]:
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    ours = OUE(epsilon=EPSILON, categories=CATEGORIES)
    client = UEClient(EPSILON, CATEGORIES, use_oue=True, index_mapper=int)
    n, few = values.size, min(values.size, 10 * SLOW_PEOPLE)
    people = values[:few].tolist()
    reports = ours.randomize(values, rng)
    rows = list(np.unpackbits(reports[:few], axis=1, bitorder="little").astype(np.float64))
    return [
        Case(
            "OUE",
            "client",
            Timed(lambda: ours.randomize(values, rng), n),
            {
                "multi-freq-ldpy": Timed(
                    lambda: [UE_Client(x, CATEGORIES, EPSILON) for x in people], few
                ),
                "pure-ldp": Timed(lambda: [client.privatise(x) for x in people], few),
            },
            20,
        ),
        Case(
            "OUE",
            "server",
            Timed(lambda: ours.estimate(reports), n),
            {
                "multi-freq-ldpy": Timed(lambda: UE_Aggregator_MI(rows, EPSILON), few),
                "pure-ldp": Timed(
                    lambda: serve(
                        UEServer(EPSILON, CATEGORIES, use_oue=True, index_mapper=int), rows
                    ),
                    few,
                ),
            },
            20,
        ),
    ]


def hadamard_cases(values: NDArray[np.int64], rng: np.random.Generator) -> list[Case]:
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )

    ours = HadamardResponse(epsilon=EPSILON, categories=CATEGORIES)
    server = HadamardResponseServer(EPSILON, CATEGORIES, index_mapper=int)
    client = HadamardResponseClient(EPSILON, CATEGORIES, server.get_hash_funcs(), index_mapper=int)
    people = values.tolist()
    reports = ours.randomize(values, rng)
    sent = reports.tolist()
    n = len(people)

    def peer_server() -> object:
        server.reset()
        return serve(server, sent)

    return [
        Case(
            "Hadamard response",
            "client",
            Timed(lambda: ours.randomize(values, rng), n),
            {"pure-ldp": Timed(lambda: [client.privatise(x) for x in people], n)},
            20,
        ),
        Case(
            "Hadamard response",
            "server",
            Timed(lambda: ours.estimate(reports), n),
            {"pure-ldp": Timed(peer_server, n)},
            20,
        ),
    ]


def hashing_cases(values: NDArray[np.int64], rng: np.random.Generator) -> list[Case]:
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer

    ours = OLH(epsilon=EPSILON, categories=CATEGORIES)
    client = LHClient(EPSILON, CATEGORIES, use_olh=True, index_mapper=int)
    n, few = values.size, min(values.size, SLOW_PEOPLE)
    people = values[:few].tolist()
    reports = ours.randomize(values, rng)
    theirs = [client.privatise(x) for x in people]
    return [
        Case(
            "OLH",
            "client",
            Timed(lambda: ours.randomize(values, rng), n),
            {
                "multi-freq-ldpy": Timed(
                    lambda: [LH_Client(x, CATEGORIES, EPSILON) for x in people], few
                ),
                "pure-ldp": Timed(lambda: [client.privatise(x) for x in people], few),
            },
            None,
        ),
        Case(
            "OLH",
            "server",
            Timed(lambda: ours.estimate(reports), n),
            {
                "multi-freq-ldpy": Timed(
                    lambda: LH_Aggregator_MI(theirs, CATEGORIES, EPSILON), few
                ),
                "pure-ldp": Timed(
                    lambda: serve(
                        LHServer(EPSILON, CATEGORIES, use_olh=True, index_mapper=int), theirs
                    ),
                    few,
                ),
            },
            100,
        ),
    ]


def privunit_cases(rng: np.random.Generator) -> list[Case]:
    ours = PrivUnit(epsilon=EPSILON, dimension=DIMENSION)
    vectors = rng.standard_normal((20 * SLOW_PEOPLE, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    few = vectors[:SLOW_PEOPLE]
    return [
        Case(
            f"PrivUnit, {DIMENSION} dimensions",
            "client",
            Timed(lambda: ours.randomize(vectors, rng), len(vectors)),
            {
                "a loop with our checks": Timed(lambda: privunit_loop(few, rng, True), len(few)),
                "a loop without checks": Timed(lambda: privunit_loop(few, rng, False), len(few)),
            },
            10,
        )
    ]


def privunit_loop(
    vectors: NDArray[np.float64], rng: np.random.Generator, checked: bool
) -> list[Any]:
    """The same mechanism, one vector at a time; with our checks and rounding, or bare."""
    cap = best_cap(EPSILON, DIMENSION)
    reports = []
    for vector in vectors:
        unit = normalised(vector) if checked else vector
        if rng.random() < cap.probability:
            above = cap.share * rng.random()
        else:
            above = cap.share + (1 - cap.share) * rng.random()
        square = betainccinv(0.5, (DIMENSION - 1) / 2, 2 * min(above, 1 - above))
        height = math.copysign(math.sqrt(square), 0.5 - above)
        across = rng.standard_normal(DIMENSION)
        across -= (across @ unit) * unit
        across /= np.linalg.norm(across)
        report = height * unit + math.sqrt(1 - height**2) * across
        reports.append(report.astype(np.float32) if checked else report)
    return reports


def normalised(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    if not abs(length - 1) <= 1e-6:
        raise ValueError("not a unit vector")
    return vector / length


def serve(server: Any, reports: list[Any]) -> object:
    """What a pure-ldp server does with the reports."""
    for report in reports:
        server.aggregate(report)
    return [server.estimate(x, suppress_warnings=True) for x in range(CATEGORIES)]


def measure(people: int, rounds: int) -> list[Case]:
    rng = np.random.default_rng(1)
    values = rng.integers(0, CATEGORIES, people)
    cases = [
        *response_cases(values, rng),
        *unary_cases(values, rng),
        *hadamard_cases(values, rng),
        *hashing_cases(values, rng),
        *privunit_cases(rng),
    ]
    for case in cases:
        print(f"measuring {case.name} {case.side}", file=sys.stderr)
        for contender in case.contenders:
            contender.work()  # compiles, and fills caches
        for _ in range(rounds):
            for contender in case.contenders:
                contender.run()
    return cases


def as_table(cases: list[Case]) -> str:
    lines = [f"{'':28}{'side':8}{'ours/s':>12}{'fastest peer/s':>16}{'ratio':>9}{'target':>8}"]
    for case in cases:
        peer = max(timed.rate for timed in case.peers.values())
        aim = "" if case.target is None else f"{case.target:.0f}×"
        verdict = {True: "holds", False: "MISSED", None: ""}[case.holds]
        lines.append(
            f"{case.name:28}{case.side:8}{case.ours.rate:12,.0f}{peer:16,.0f}"
            f"{case.ratio:8.1f}×{aim:>8}  {verdict}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Randomizers beside their peers.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--people", type=lambda text: int(float(text)), default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cases = measure(options.people, options.rounds)
    missed = [case for case in cases if case.holds is False]
    if options.format == "json":
        setting = {"people": options.people, "categories": CATEGORIES, "epsilon": EPSILON}
        print(json.dumps({**setting, "cases": [case.as_dict() for case in cases]}, indent=2))
    else:
        print(f"{options.people:,} people, {CATEGORIES} categories, epsilon {EPSILON}")
        print(as_table(cases))
        print("all targets hold" if not missed else f"{len(missed)} targets missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
