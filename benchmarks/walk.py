"""A population of walkers beside a C loop and networkx, in one run.

Everyone's report walks: 1e6 people, each of whom knows five random others and is known by about
five more (average degree 10), 100 rounds. Ours is :func:`incrowd.graphs.walk`, checks and all.

1. C: the same walk in blocks, two passes per round with prefetches, compiled in this run by the
   system's compiler with ``-O3`` and given to as many threads as ours. Skipped without a compiler.
2. networkx: one walker after the other, ``random.choice(list(graph.neighbors(v)))``, on a graph of
   the same kind with fewer people, which is kind to it: more of that one fits the cache. A walk on
   lists of neighbours prepared before the clock starts is shown beside it.
3. The peak memory of making the graph and walking on it.
4. The law: a χ² test of the positions against the exact law Pᵗ, from one common start after a few
   rounds, where each hop shows, and from random starts after all rounds.

Times are processor times summed over the threads, the best of several runs taken in turns, so that
a busy machine changes the ratios little. The exit code is 1 when a target is missed.

    python benchmarks/walk.py [--format json] [--people 1e6] [--rounds 100] [--repeats 3]
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from targets import Result, show

from incrowd import graphs
from incrowd.graphs.propagate import Step

PEERS = 5
"""Random others that each person knows: an average degree of ten."""
C_TARGET = 3.0
NETWORKX_TARGET = 30.0
MEMORY_TARGET = 2e9
DOUBT = 1e-4
"""The law is in doubt where a χ² test of true draws would fail this seldom."""
EARLY = 4
"""Rounds from a common start after which each hop still shows."""
RESTING = 0.01
"""Laziness of another walk, whose law the same positions must fail."""
LEAST_EXPECTED = 10.0
"""Vertices are taken together until so many walkers are expected in each cell of the χ² test."""
SMALL_CROWD, FEW_WALKERS = 100_000, 3_000
"""People and walkers of networkx."""

C_SOURCE = r"""
#include <stdint.h>
#define BLOCK 256

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void walk(const uint32_t *rows, const int32_t *neighbours, int32_t *at, int64_t walkers,
          int64_t rounds, uint64_t seed) {
    uint32_t entry[BLOCK];
    for (int64_t begin = 0; begin < walkers; begin += BLOCK) {
        int64_t size = walkers - begin < BLOCK ? walkers - begin : BLOCK;
        int32_t *here = at + begin;
        for (int64_t t = 0; t < rounds; t++) {
            for (int64_t i = 0; i < size; i++) {
                uint32_t row = rows[here[i]], degree = rows[here[i] + 1] - row;
                entry[i] = row + (uint32_t)(((splitmix(&seed) >> 32) * degree) >> 32);
                __builtin_prefetch(neighbours + entry[i]);
            }
            for (int64_t i = 0; i < size; i++) {
                here[i] = neighbours[entry[i]];
                __builtin_prefetch(rows + here[i]);
            }
        }
    }
}
"""

Positions = NDArray[np.int32]


@dataclass
class Timed:
    """A walk of so many hops, and the best processor time seen."""

    work: Callable[[], object]
    hops: int
    seconds: float = math.inf

    def run(self) -> None:
        """Do it once."""
        start = time.process_time()
        self.work()
        self.seconds = min(self.seconds, time.process_time() - start)

    @property
    def per_hop(self) -> float:
        """Nanoseconds per hop."""
        return 1e9 * self.seconds / self.hops


def population(people: int) -> graphs.Graph:
    return graphs.with_random_peers(graphs.from_edges([], [], people), PEERS, 1)


def compiled_walk(folder: Path) -> Callable[..., None] | str:
    """The C loop, or why there is none."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        return "no C compiler: neither cc nor gcc is on the path"
    source, library = folder / "walk.c", folder / "walk.so"
    source.write_text(C_SOURCE)
    command = [compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}"
    loop = ctypes.CDLL(str(library)).walk
    loop.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2 + [ctypes.c_uint64]
    loop.restype = None
    return loop


def c_walk(
    loop: Callable[..., None], graph: graphs.Graph, starts: Positions, rounds: int
) -> Positions:
    """The walk by the C loop, with an equal share of the walkers for each thread."""
    rows, at = graph.indptr.astype(np.uint32), starts.copy()
    threads = numba.get_num_threads()

    def share(part: Positions, seed: int) -> None:
        # A call through ctypes lets other threads run.
        loop(rows.ctypes.data, graph.indices.ctypes.data, part.ctypes.data, part.size, rounds, seed)

    with ThreadPoolExecutor(threads) as pool:
        # Starts of the sequence so far apart that no share reaches the next one's.
        list(pool.map(share, np.array_split(at, threads), [k << 58 for k in range(threads)]))
    return at


def networkx_walk(graph: Any, starts: list[int], rounds: int) -> list[int]:
    rng = random.Random(1)
    ends = []
    for v in starts:
        for _ in range(rounds):
            v = rng.choice(list(graph.neighbors(v)))
        ends.append(v)
    return ends


def list_walk(neighbours: list[list[int]], starts: list[int], rounds: int) -> list[int]:
    rng = random.Random(1)
    ends = []
    for v in starts:
        for _ in range(rounds):
            v = rng.choice(neighbours[v])
        ends.append(v)
    return ends


def law(
    graph: graphs.Graph, begin: NDArray[np.float64], rounds: int, laziness: float = 0.0
) -> NDArray[np.float64]:
    """The exact law after so many rounds."""
    step, block = Step(graph, laziness), begin[:, None].copy()
    for _ in range(rounds):
        block = step(block)
    return block[:, 0]


def p_value(ends: Positions, exact: NDArray[np.float64]) -> float:
    """The χ² test of independent positions against their law; 0 if one is impossible."""
    from scipy.stats import chisquare

    observed = np.bincount(ends, minlength=exact.size)
    if observed[exact == 0].any():
        return 0.0
    expected = exact * ends.size
    cell = (np.cumsum(expected) / LEAST_EXPECTED).astype(np.int64)
    # What is left over at the end joins the cell before it.
    cell = np.minimum(cell, max(0, int(cell[-1]) - 1))
    means, counts = (np.bincount(cell, weights=each) for each in (expected, observed))
    used = means > 0
    means, counts = means[used], counts[used]
    if means.size < 2:
        return 1.0
    return float(chisquare(counts, means * (counts.sum() / means.sum())).pvalue)


def peak_memory() -> float:
    """The most memory that this process ever held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def law_results(graph: graphs.Graph, rounds: int) -> list[Result]:
    rng, n = np.random.default_rng(2), graph.n
    common = np.zeros(n)
    common[0] = 1
    early = graphs.walk(graph, np.zeros(n, dtype=np.int32), EARLY, rng)
    late = graphs.walk(graph, rng.integers(n, size=n), rounds, rng)
    exact = law(graph, common, EARLY)
    return [
        Result(
            f"χ² of a common start, {EARLY} rounds", p_value(early, exact), "p", DOUBT, "at least"
        ),
        Result(
            f"χ² of random starts, {rounds} rounds",
            p_value(late, law(graph, np.full(n, 1 / n), rounds)),
            "p",
            DOUBT,
            "at least",
        ),
        Result(
            f"χ² of the first against {RESTING:.0%} rest",
            p_value(early, law(graph, common, EARLY, RESTING)),
            "p",
            DOUBT,
            "at most",
        ),
    ]


def measure(people: int, rounds: int, repeats: int) -> list[Result]:
    print("making the graph", file=sys.stderr)
    graph = population(people)
    starts = np.arange(people, dtype=np.int32)
    rng = np.random.default_rng(3)
    # Compiles, and is the first to need the memory of a walk.
    begun = time.perf_counter()
    graphs.walk(graph, starts, rounds, rng)
    first = time.perf_counter() - begun
    memory = peak_memory()

    ours = Timed(partial(graphs.walk, graph, starts, rounds, rng), people * rounds)
    contenders = {"ours": ours}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        loop = compiled_walk(Path(folder))
        if isinstance(loop, str):
            missing["C"] = loop
        else:
            contenders["C"] = Timed(partial(c_walk, loop, graph, starts, rounds), ours.hops)
        try:
            import networkx
        except ImportError:
            missing["networkx"] = "networkx is not installed: pip install --group test"
        else:
            small = population(min(people, SMALL_CROWD))
            few = np.random.default_rng(4).integers(small.n, size=FEW_WALKERS).tolist()
            peer = networkx.Graph()
            peer.add_nodes_from(range(small.n))
            peer.add_edges_from(np.stack(small.edges(), axis=1).tolist())
            lists = [list(peer.neighbors(v)) for v in range(small.n)]
            hops = len(few) * rounds
            contenders["networkx"] = Timed(partial(networkx_walk, peer, few, rounds), hops)
            contenders["lists"] = Timed(partial(list_walk, lists, few, rounds), hops)
        for turn in range(repeats):
            print(f"measuring, turn {turn + 1} of {repeats}", file=sys.stderr)
            for contender in contenders.values():
                contender.run()
    print("testing the law", file=sys.stderr)

    def ratio(name: str, upside_down: bool = False) -> float | None:
        if name not in contenders:
            return None
        found = contenders[name].seconds / contenders[name].hops / (ours.seconds / ours.hops)
        return 1 / found if upside_down else found

    def told(name: str) -> str:
        if name not in contenders:
            return f"skipped: {missing[name]}"
        return f"{ours.per_hop:.3g} ns per hop, theirs {contenders[name].per_hop:.3g} ns"

    results = [
        Result("ours over a blocked C loop", ratio("C", True), "×", C_TARGET, "at most", told("C")),
        Result(
            "networkx over ours",
            ratio("networkx"),
            "×",
            NETWORKX_TARGET,
            "at least",
            told("networkx"),
        ),
    ]
    if "lists" in contenders:
        results.append(
            Result(
                "lists of neighbours over ours",
                ratio("lists"),
                "×",
                None,
                "at least",
                told("lists"),
            )
        )
    note = f"the first walk took {first:.2g} s, compiling or loading its loop included"
    results.append(Result("peak memory", memory / 1e9, "GB", MEMORY_TARGET / 1e9, "at most", note))
    return [*results, *law_results(graph, rounds)]


def main() -> int:
    def whole(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description="A population of walkers beside C and networkx.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--people", type=whole, default=10**6)
    parser.add_argument("--rounds", type=whole, default=100, help="of the walk")
    parser.add_argument("--repeats", type=int, default=3, help="the best time counts")
    options = parser.parse_args()
    results = measure(options.people, options.rounds, options.repeats)
    setting = {
        "people": options.people,
        "rounds": options.rounds,
        "threads": numba.get_num_threads(),
    }
    return show(results, setting, options.format)


if __name__ == "__main__":
    sys.exit(main())
