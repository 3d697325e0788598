"""Mallows permutations of a million ranks beside a C sampler and a uniform shuffle, in one run.

1. C: the same codes by the same formula from splitmix64 numbers, written down with a Fenwick tree
   of free slots, compiled in this run by the system's compiler with ``-O3``. Skipped without a
   compiler. Ours is :func:`incrowd.protocols.order_shuffle.samplers.kendall.kendall_permutation`,
   checks and all, for θ that moves ranks by half of all, by a thousand, and by one.
2. numpy's uniform shuffle (``Generator.permutation``), as the limit of what reading and writing a
   million places takes: shown, without a target.
3. The law: the mean number of inversions of ours and of the C sampler, both against the exact one.
4. The Hamming law, and draws without floating point for fewer ranks: shown, without a target.

Times are processor times, the best of several runs taken in turns, so that a busy machine changes
the ratios little. The exit code is 1 when a target is missed.

    python benchmarks/order_shuffle.py [--format json] [--ranks 1e6] [--repeats 5]
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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import zeta
from targets import Result, show

from incrowd.protocols.order_shuffle.samplers import kendall
from incrowd.protocols.order_shuffle.samplers.hamming import hamming_permutation

C_TARGET = 0.3
LAW_TARGET = 0.005
THETAS = (1e-6, 1e-3, 1.0)
HAMMING_THETA = 13.0
EXACT_THETA = 0.01
EXACT_SHARE = 10
"""Exact draws are of this many times fewer ranks."""
_SERIES = tuple(
    -2 * (-1) ** k * float(zeta(2 * k)) / (2 * math.pi) ** (2 * k) for k in range(1, 12)
)
"""½·coth(t/2) − 1/t = Σ_k c_k·t^(2k − 1); these serve |t| ≤ 1 to the last digit."""

C_SOURCE = r"""
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Returns the number of inversions, or -1 without memory. */
int64_t sample(int64_t n, double theta, uint64_t seed, int64_t *list) {
    int32_t *tree = malloc((n + 1) * sizeof *tree);
    if (!tree) return -1;
    int64_t top = 1, total = 0;
    while (2 * top <= n) top *= 2;
    for (int64_t i = 1; i <= n; i++) tree[i] = (int32_t)(i & -i);
    for (int64_t i = n; i >= 1; i--) {
        double u = (splitmix(&seed) >> 11) * 0x1p-53;
        int64_t code = (int64_t)(-log1p(u * expm1(-i * theta)) / theta);
        if (code > i - 1) code = i - 1;
        total += code;
        /* The free slot with so many free slots behind it, counted from the end of the list. */
        int64_t slot = 0;
        for (int64_t step = top; step; step /= 2)
            if (slot + step <= n && tree[slot + step] <= code) {
                slot += step;
                code -= tree[slot];
            }
        list[n - 1 - slot] = i - 1;
        for (int64_t j = slot + 1; j <= n; j += j & -j) tree[j]--;
    }
    free(tree);
    return total;
}
"""

Permutation = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass
class Timed:
    """A draw, the best processor time seen, and what came out last."""

    work: Callable[[], Permutation]
    seconds: float = math.inf
    result: Permutation = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def run(self) -> None:
        """Do it once."""
        start = time.process_time()
        self.result = self.work()
        self.seconds = min(self.seconds, time.process_time() - start)

    @property
    def per_rank(self) -> float:
        """Nanoseconds per rank."""
        return 1e9 * self.seconds / self.result.size


Sampler = Callable[[int, float, int], Permutation]


def compiled_sampler(folder: Path) -> Sampler | str:
    """The C sampler, or why there is none."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        return "no C compiler: neither cc nor gcc is on the path"
    source, library = folder / "mallows.c", folder / "mallows.so"
    source.write_text(C_SOURCE)
    command = [compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}"
    loop = ctypes.CDLL(str(library)).sample
    loop.argtypes = [ctypes.c_int64, ctypes.c_double, ctypes.c_uint64, ctypes.c_void_p]
    loop.restype = ctypes.c_int64

    def sample(n: int, theta: float, seed: int) -> Permutation:
        found = np.empty(n, dtype=np.int64)
        if loop(n, theta, seed, found.ctypes.data) < 0:
            raise MemoryError("the C sampler found no memory")
        return found

    return sample


def inversions(tau: Permutation) -> int:
    """Pairs out of order: by merging sorted runs, each twice as long as those before."""
    values, total, width = tau.copy(), 0, 1
    while width < values.size:
        run = np.arange(values.size) // (2 * width)
        by_value = np.lexsort((values, run))
        late = (by_value // width) % 2 == 1
        # Of the first half of a run, those that come after an entry of its second half are larger.
        firsts = np.cumsum(~late)
        ends = np.append(np.flatnonzero(np.diff(run)), values.size - 1)
        total += int((firsts[ends[run]] - firsts)[late].sum())
        values, width = values[by_value], 2 * width
    return total


# Sums over the independent codes. g(t) = 1/(e^t − 1) has a pole at 0, which the difference of two
# such terms does not have: where i·θ is small the pole is taken out before subtracting.


def expected_inversions(n: int, theta: float) -> float:
    """The mean number of inversions: Σ_i (g(θ) − i·g(iθ)), g(t) = 1/(e^t − 1)."""
    if math.isinf(theta):
        return 0.0
    near = _near(n, theta)
    i = np.arange(1.0, near + 1)
    total = float(((i - 1) / 2 - (i * _odd(i * theta) - _odd(theta))).sum()) if near else 0.0
    if near < n:
        i = np.arange(near + 1.0, n + 1)
        total += float((_mean(theta) - i * _mean(i * theta)).sum())
    return total


def inversions_deviation(n: int, theta: float) -> float:
    """The standard deviation of the number of inversions."""
    if math.isinf(theta):
        return 0.0
    near = _near(n, theta)
    i = np.arange(1.0, near + 1)
    total = float((i**2 * _slope(i * theta) - _slope(theta)).sum()) if near else 0.0
    if near < n:
        i = np.arange(near + 1.0, n + 1)
        total += float((_spread(theta) - i**2 * _spread(i * theta)).sum())
    return math.sqrt(total)


def _near(n: int, theta: float) -> int:
    """How many i have i·θ ≤ 1."""
    return n if n * theta <= 1 else int(1 / theta)


def _mean(t: FloatArray | float) -> FloatArray:
    return np.asarray(np.exp(-np.asarray(t)) / -np.expm1(-np.asarray(t)))


def _spread(t: FloatArray | float) -> FloatArray:
    """−g′(t) = g(t)·(1 + g(t))."""
    mean = _mean(t)
    return np.asarray(mean * (1 + mean))


def _odd(t: FloatArray | float) -> FloatArray:
    """g(t) − 1/t + ½ for |t| ≤ 1."""
    t = np.asarray(t, dtype=np.float64)
    total: FloatArray = np.zeros_like(t)
    for factor in reversed(_SERIES):
        total = total * t**2 + factor
    return np.asarray(total * t)


def _slope(t: FloatArray | float) -> FloatArray:
    """Its derivative."""
    t = np.asarray(t, dtype=np.float64)
    total: FloatArray = np.zeros_like(t)
    for k, factor in reversed(list(enumerate(_SERIES))):
        total = total * t**2 + (2 * k + 1) * factor
    return np.asarray(total)


def off_mean(tau: Permutation, theta: float) -> float:
    """How far the number of inversions is from its mean, as a share of it."""
    return abs(inversions(tau) / expected_inversions(tau.size, theta) - 1)


def measure(ranks: int, repeats: int) -> list[Result]:
    rng = np.random.default_rng(1)
    begun = time.perf_counter()
    for theta in THETAS:
        kendall.kendall_permutation(100, theta, rng)
    kendall.kendall_permutation(100, EXACT_THETA, rng, exact=True)
    first = time.perf_counter() - begun
    contenders = {
        ("ours", theta): Timed(partial(kendall.kendall_permutation, ranks, theta, rng))
        for theta in THETAS
    }
    fewer = max(1, ranks // EXACT_SHARE)
    uniform = Timed(partial(rng.permutation, ranks))
    hamming = Timed(partial(hamming_permutation, ranks, HAMMING_THETA, rng))
    exact = Timed(partial(kendall.kendall_permutation, fewer, EXACT_THETA, rng, exact=True))
    with tempfile.TemporaryDirectory() as folder:
        sampler = compiled_sampler(Path(folder))
        if not isinstance(sampler, str):
            for theta in THETAS:
                contenders["C", theta] = Timed(partial(sampler, ranks, theta, 7))
        for turn in range(repeats):
            print(f"measuring, turn {turn + 1} of {repeats}", file=sys.stderr)
            for contender in (*contenders.values(), uniform, hamming, exact):
                contender.run()
    print("counting inversions", file=sys.stderr)
    results = []
    for theta in THETAS:
        ours, theirs = contenders["ours", theta], contenders.get(("C", theta))
        ratio, note = None, f"skipped: {sampler}"
        if theirs is not None:
            ratio = theirs.seconds / ours.seconds
            note = f"ours {ours.per_rank:.3g} ns per rank, theirs {theirs.per_rank:.3g} ns"
        results.append(
            Result(f"C over ours, θ = {theta:g}", ratio, "×", C_TARGET, "at least", note)
        )
    for theta in THETAS:
        ours = contenders["ours", theta]
        name = f"uniform shuffle over ours, θ = {theta:g}"
        note = f"numpy's {uniform.per_rank:.3g} ns per rank"
        results.append(Result(name, uniform.seconds / ours.seconds, "×", None, "at least", note))
    for (who, theta), contender in contenders.items():
        name = f"inversions off their mean, {who}, θ = {theta:g}"
        # Few ranks have few inversions, which vary more than is asked of many.
        spread = 5 * inversions_deviation(ranks, theta)
        target = max(LAW_TARGET, spread / expected_inversions(ranks, theta))
        results.append(Result(name, off_mean(contender.result, theta), "", target, "at most"))
    results.append(
        Result(f"Hamming law, θ = {HAMMING_THETA:g}", hamming.per_rank, "ns", None, "at most")
    )
    note = f"{fewer:,} ranks; compiling or loading all loops took {first:.2g} s"
    results.append(
        Result(f"exact draws, θ = {EXACT_THETA:g}", exact.per_rank, "ns", None, "at most", note)
    )
    return results


def main() -> int:
    def whole(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description="Mallows permutations beside C and numpy.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--ranks", type=whole, default=10**6)
    parser.add_argument("--repeats", type=int, default=5, help="the best time counts")
    options = parser.parse_args()
    results = measure(options.ranks, options.repeats)
    return show(results, {"ranks": options.ranks}, options.format)


if __name__ == "__main__":
    sys.exit(main())
