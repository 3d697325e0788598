"""Token walks beside a C loop and plain Python, in one run.

1. A sum and a histogram over many steps: :func:`incrowd.protocols.token_walk.simulate.collect`,
   which lets the randomizer itself draw every contribution, beside a C loop that does the same
   work (a uniform holder, a normal or a response, the same grid, a running total) with xoshiro256++
   and a ziggurat, compiled in this run by the system's compiler with ``-O3``. Skipped without one.
   Their law: both means must lie where the truth and their own error put them.
2. The losses of all pairs on one path, beside plain Python that goes through the path once per
   observer. That one is timed for some observers and scaled to all, which is exact for a loop whose
   work is the same for everyone; where both have a number it must be the same.

Times are processor times, the best of several runs taken in turns. The exit code is 1 when a target
is missed.

    python benchmarks/token_walk.py [--format json] [--steps 2e7] [--repeats 5] [--observers 6]
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from targets import Result, show

from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.simulate import collect
from incrowd.protocols.token_walk.theorems.conditional_on_path import path_losses
from incrowd.randomizers import KRR, Gaussian
from incrowd.randomness import Seeds

C_TARGET = 0.3
PYTHON_TARGET = 100.0
PEOPLE = 10_000
PAIRS, PATH = 2_000, 200_000
ROUNDING = 1e-9
DOUBT = 6.0
"""Standard deviations from the truth at which a law is in doubt."""

C_SOURCE = r"""
#include <math.h>
#include <stdint.h>

static uint64_t s[4];
static double edge[257], height[257];

static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline uint64_t word(void) { /* xoshiro256++ */
    uint64_t result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
    s[2] ^= t; s[3] = rotl(s[3], 45);
    return result;
}

static inline double unit(void) { return (word() >> 11) * 0x1p-53; }
static inline uint32_t below(uint32_t n) { return (uint32_t)(((word() >> 32) * n) >> 32); }

static inline double normal(void) { /* a ziggurat of 256 layers */
    for (;;) {
        uint64_t w = word();
        int layer = w & 255;
        double sign = w & 256 ? -1 : 1, x = (w >> 11) * 0x1p-53 * edge[layer];
        if (x < edge[layer + 1]) return sign * x;
        if (layer == 0) {
            double a, b;
            do { a = -log1p(-unit()) / edge[1]; b = -log1p(-unit()); } while (b + b < a * a);
            return sign * (edge[1] + a);
        }
        double y = height[layer] + (height[layer + 1] - height[layer]) * unit();
        if (y < exp(-0.5 * x * x)) return sign * x;
    }
}

void begin(uint64_t key) {
    for (int i = 0; i < 4; i++) {
        uint64_t z = key += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        s[i] = z ^ (z >> 31);
    }
    double r = 3.6541528853610088, area = 0.00492867323399;
    edge[0] = area / exp(-0.5 * r * r); edge[1] = r; edge[256] = 0;
    for (int i = 2; i < 256; i++)
        edge[i] = sqrt(-2 * log(area / edge[i - 1] + exp(-0.5 * edge[i - 1] * edge[i - 1])));
    for (int i = 0; i < 257; i++) height[i] = exp(-0.5 * edge[i] * edge[i]);
}

double sum(const double *values, uint32_t n, double sigma, int64_t steps) {
    double total = 0;
    for (int64_t t = 0; t < steps; t++)
        total += nearbyint((values[below(n)] + sigma * normal()) * 0x1p20) * 0x1p-20;
    return total;
}

void histogram(const int64_t *codes, uint32_t n, double keep, uint32_t k, int64_t steps,
               int64_t *counts) {
    for (int64_t t = 0; t < steps; t++) {
        int64_t code = codes[below(n)];
        counts[unit() < keep ? code : below(k)]++;
    }
}
"""


@dataclass
class Timed:
    """Work, and the best processor time seen."""

    work: Callable[[], object]
    seconds: float = math.inf

    def run(self) -> None:
        """Do it once."""
        start = time.process_time()
        self.work()
        self.seconds = min(self.seconds, time.process_time() - start)


def compiled(folder: Path) -> ctypes.CDLL | str:
    """The C loops, or why there are none."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        return "no C compiler: neither cc nor gcc is on the path"
    source, library = folder / "token.c", folder / "token.so"
    source.write_text(C_SOURCE)
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    command = [compiler, *flags, str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}"
    loops = ctypes.CDLL(str(library))
    pointer, whole, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    loops.begin.argtypes = [ctypes.c_uint64]
    loops.sum.argtypes = [pointer, ctypes.c_uint32, number, whole]
    loops.sum.restype = number
    loops.histogram.argtypes = [pointer, ctypes.c_uint32, number, ctypes.c_uint32, whole, pointer]
    loops.begin(7)
    return loops


def c_sum(loops: ctypes.CDLL, values: NDArray[np.float64], sigma: float, steps: int) -> float:
    """The sum of so many noisy contributions, by the C loop."""
    return float(loops.sum(values.ctypes.data, len(values), sigma, steps))


def c_histogram(
    loops: ctypes.CDLL, codes: NDArray[np.int64], randomizer: KRR, steps: int
) -> NDArray[np.int64]:
    """The counts of so many responses, by the C loop."""
    counts = np.zeros(randomizer.categories, np.int64)
    odds = math.exp(randomizer.epsilon)
    keep = (odds - 1) / (odds + randomizer.categories - 1)
    loops.histogram(
        codes.ctypes.data, len(codes), keep, randomizer.categories, steps, counts.ctypes.data
    )
    return counts


def plain_losses(path: list[int], n: int, observer: int) -> list[float]:
    """The sum of k²/m over what lies between two visits of one observer, for everyone.

    What follows the last visit counts too: the result is seen.
    """
    losses = [0.0] * n
    between: dict[int, int] = {}
    length = 0
    for holder in [*path, observer]:
        if holder != observer:
            between[holder] = between.get(holder, 0) + 1
            length += 1
            continue
        for person, times in between.items():
            losses[person] += times * times / length
        between, length = {}, 0
    return losses


def doubt(found: Any, truth: Any, error: Any) -> float:
    """The farthest that an estimate lies from the truth, in standard deviations."""
    return float(np.max(np.abs(np.asarray(found) - truth) / error))


def simulations(steps: int, repeats: int) -> list[Result]:
    rng = np.random.default_rng(1)
    numbers, codes = rng.random(PEOPLE), rng.integers(10, size=PEOPLE)
    gaussian, response = Gaussian(epsilon=1.0, delta=1e-6), KRR(categories=10, epsilon=1.0)
    walks = {
        "sum": (TokenWalk(gaussian, n=PEOPLE, steps=steps), numbers, numbers.mean()),
        "histogram": (
            TokenWalk(response, n=PEOPLE, steps=steps),
            codes,
            np.bincount(codes) / PEOPLE,
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        loops = compiled(Path(folder))
        ours = {
            name: Timed(lambda walk=walk, values=values: collect(walk, values, Seeds(1)))  # type: ignore[misc]
            for name, (walk, values, _) in walks.items()
        }
        theirs: dict[str, Timed] = {}
        if not isinstance(loops, str):
            theirs["sum"] = Timed(lambda: c_sum(loops, numbers, gaussian.sigma, steps))
            theirs["histogram"] = Timed(lambda: c_histogram(loops, codes, response, steps))
        for _ in range(repeats):
            for contender in (*ours.values(), *theirs.values()):
                contender.run()
        found = []
        for name, (walk, values, truth) in walks.items():
            estimate = collect(walk, values, Seeds(2)).estimate(walk.randomizer)
            error = np.sqrt(estimate.variance)
            away = [doubt(estimate.value, truth, error)]
            rate = f"{steps / ours[name].seconds:.3g} steps per second"
            ratio, note = None, f"skipped: {loops}"
            if not isinstance(loops, str):
                total: Any = (
                    c_sum(loops, numbers, gaussian.sigma, steps)
                    if name == "sum"
                    else c_histogram(loops, codes, response, steps)
                )
                theirs_too = walk.randomizer.from_tally(np.asarray(total), steps, steps)
                away.append(doubt(theirs_too.value, truth, error))
                ratio = theirs[name].seconds / ours[name].seconds
                note = f"{rate}, C {steps / theirs[name].seconds:.3g}"
            found.append(Result(f"speed, {name}, over C", ratio, "×", C_TARGET, "at least", note))
            note = "standard errors from the truth, both"
            found.append(Result(f"law, {name}", max(away), "", DOUBT, "at most", note))
        return found


def losses(repeats: int, observers: int) -> list[Result]:
    path = np.random.default_rng(2).integers(PAIRS, size=PATH)
    path_losses(path[:100], PAIRS, published=True)  # compiles
    ours = Timed(lambda: path_losses(path, PAIRS, published=True))
    some, listed = list(range(observers)), path.tolist()
    theirs = Timed(lambda: [plain_losses(listed, PAIRS, each) for each in some])
    for _ in range(repeats):
        ours.run()
    theirs.run()
    seconds = theirs.seconds * PAIRS / observers
    matrix = np.asarray(path_losses(path, PAIRS, published=True))
    plain = np.array([plain_losses(listed, PAIRS, each) for each in some])
    apart = float(np.abs(pairs_of(matrix, some) - plain).max() / plain.max())
    note = (
        f"{ours.seconds:.3g} s, Python {seconds:.3g} s ({theirs.seconds:.3g} s for {observers} "
        f"of {PAIRS} observers)"
    )
    ratio = seconds / ours.seconds
    return [
        Result("speed, all pairs, over Python", ratio, "×", PYTHON_TARGET, "at least", note),
        Result("difference of the losses", apart, "", ROUNDING, "at most", "relative"),
    ]


def pairs_of(matrix: NDArray[np.float64], observers: list[int]) -> NDArray[np.float64]:
    """What each of these observers sees of everyone."""
    return matrix[:, observers].T


def main() -> int:
    def whole(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description="Token walks beside C and plain Python.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--steps", type=whole, default=2 * 10**7, help="of the simulations")
    parser.add_argument("--repeats", type=int, default=5, help="the best time counts")
    parser.add_argument("--observers", type=int, default=6, help="timed in plain Python")
    options = parser.parse_args()
    print("walking", file=sys.stderr)
    results = simulations(options.steps, options.repeats)
    print("all pairs", file=sys.stderr)
    results += losses(options.repeats, options.observers)
    setting = {
        "people": PEOPLE,
        "steps": options.steps,
        "people of all pairs": PAIRS,
        "steps of their path": PATH,
    }
    return show(results, setting, options.format)


if __name__ == "__main__":
    sys.exit(main())
