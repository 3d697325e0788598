"""Permutations come out with the chances that they should have, drawn with and without doubles."""

import json
import math
import sys
import tracemalloc
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from incrowd.errors import IncrowdError, InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.samplers import hamming, kendall
from incrowd.protocols.order_shuffle.samplers.exact import _growth, _quantile, exact_codes
from incrowd.protocols.order_shuffle.samplers.kernels import exponentials, fill_slots, insert
from incrowd.randomness import system_generator
from tests.experiments.benchmarks import loaded

DOUBT = 1e-4
SAMPLERS = {
    "kendall": kendall.kendall_permutation,
    "hamming": hamming.hamming_permutation,
}


def pairs_out_of_order(tau):
    return sum(tau[a] > tau[b] for a in range(len(tau)) for b in range(a + 1, len(tau)))


def moved(tau):
    return sum(k != each for k, each in enumerate(tau))


DISTANCES = {"kendall": pairs_out_of_order, "hamming": moved}


def law(n, theta, distance):
    """Every permutation and its chance."""
    every = list(permutations(range(n)))
    weights = np.exp([-theta * DISTANCES[distance](tau) for tau in every])
    return every, weights / weights.sum()


def counted(draws, every):
    index = {tau: k for k, tau in enumerate(every)}
    return np.bincount([index[tuple(tau)] for tau in draws], minlength=len(every))


def inversions(tau):
    """Pairs out of order, in n·log n: by the highest bit in which they differ."""
    n = len(tau)
    total, values = 0, np.asarray(tau)
    for bit in range(max(n - 1, 1).bit_length() - 1, -1, -1):
        # Values are sorted by their higher bits, and in order of place where these are equal.
        ones = (values >> bit) & 1
        group = values >> (bit + 1)
        before = np.cumsum(ones) - ones
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        within = before - np.repeat(before[starts], np.diff(np.append(starts, n)))
        total += int(within[ones == 0].sum())
        zeros_before = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n))) - within
        sizes = np.add.reduceat(1 - ones, starts)
        first = np.repeat(starts, np.diff(np.append(starts, n)))
        zeros = np.repeat(sizes, np.diff(np.append(starts, n)))
        to = first + np.where(ones == 1, zeros + within, zeros_before)
        moved_to = np.empty_like(values)
        moved_to[to] = values
        values = moved_to
    return total


@pytest.mark.parametrize("exact", [False, True], ids=["double", "exact"])
@pytest.mark.parametrize("theta", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("distance", ["kendall", "hamming"])
def test_permutations_follow_mallows_law(distance, n, theta, exact):
    rng = np.random.default_rng(11)
    count = 3_000 if n == 5 else 2_000
    every, chances = law(n, theta, distance)
    draws = [SAMPLERS[distance](n, theta, rng, exact=exact) for _ in range(count)]
    observed, expected = counted(draws, every), chances * count
    cells = expected >= 5
    # What is expected too seldom is taken together.
    observed = np.append(observed[cells], observed[~cells].sum())
    expected = np.append(expected[cells], expected[~cells].sum())
    if expected[-1] < 5:
        observed[-2], expected[-2] = observed[-2:].sum(), expected[-2:].sum()
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected).pvalue > DOUBT


@pytest.mark.parametrize("distance", ["kendall", "hamming"])
def test_law_test_rejects_other_theta(distance):
    rng = np.random.default_rng(12)
    every, chances = law(4, 0.5, distance)
    draws = [SAMPLERS[distance](4, 0.6, rng) for _ in range(6_000)]
    assert chisquare(counted(draws, every), chances * 6_000).pvalue < DOUBT


@pytest.mark.parametrize("theta", [0.003, 0.4, 1 / 3, 3.0, 2.0**-70])
def test_exact_codes_have_their_law(theta):
    codes = np.stack([exact_codes(6, theta, np.random.default_rng(k)) for k in range(3_000)])
    for i in range(1, 6):
        chances = np.exp(-theta * np.arange(i + 1))
        observed = np.bincount(codes[:, i], minlength=i + 1)
        expected = chances / chances.sum() * len(codes)
        if expected.min() < 1:
            observed, expected = (
                observed[:3],
                expected[:3] * observed[:3].sum() / expected[:3].sum(),
            )
        assert chisquare(observed, expected).pvalue > DOUBT
    assert not codes[:, 0].any()


def test_exact_codes_do_not_depend_on_where_words_end(monkeypatch):
    whole = exact_codes(300, 0.01, np.random.default_rng(5))
    stream = np.random.default_rng(5).integers(2**64, size=20_000, dtype=np.uint64)
    taken = [0]

    def sips(count, rng):
        taken[0] += 7
        return stream[taken[0] - 7 : taken[0]]

    monkeypatch.setattr(f"{exact_codes.__module__}._random_words", sips)
    assert (exact_codes(300, 0.01, None) == whole).all()
    assert taken[0] < 300 * 14


def test_unfinished_item_takes_no_words():
    words = np.random.default_rng(1).integers(2**64, size=50, dtype=np.uint64)
    fractions, wholes = np.empty((100, 1), np.uint64), np.empty(100, np.int64)
    done, taken = exponentials(words, 0, fractions, wholes)
    assert 0 < done < 50
    assert 0 < taken <= 50
    again = exponentials(words[:taken], 0, fractions, wholes)
    assert again == (done, taken)


def test_exact_pinned_encloses_what_doubles_give():
    for n, theta in [(3, 0.7), (30, 2.0), (200, 5.0), (200, 12.0), (1000, 1e-5)]:
        x = math.expm1(theta)
        logs = np.array([q * math.log(x) - math.lgamma(q + 1) for q in range(n + 1)])
        chances = np.exp(logs - logs.max())
        upto = np.cumsum(chances / chances.sum())
        for u in np.random.default_rng(3).random(20):
            found = _quantile(n, theta, int(u * 2**53) << 75, 128)
            assert found is not None
            assert found == np.searchsorted(upto, u, side="right")


def test_exact_pinned_says_when_it_cannot_tell():
    # With no word read yet the number may be anywhere.
    assert _quantile(5, 1.0, 0, 0) is None


@pytest.mark.parametrize("theta", [1e-300, 1e-9, 0.3, 5.0, 900.0])
def test_growth_is_enclosed(theta):
    from mpmath import mp, mpf

    low, high, scale = _growth(theta, 200)
    mp.prec = 4000
    truth = (mp.e ** mpf(theta) - 1) * mpf(2) ** scale
    assert low <= truth <= high
    assert (high - low) / Fraction(low) < Fraction(1, 2**190)


@pytest.mark.parametrize("theta", [1e-8, 1e-6, 1e-4, 1e-2, 1.0, 5.0])
def test_kendall_permutation_of_million_has_expected_inversions(theta, benchmark):
    n, rng = 10**6, np.random.default_rng(21)
    codes = kendall.kendall_codes(n, theta, rng)
    assert (codes >= 0).all()
    assert (codes <= np.arange(n)).all()
    tau = kendall.arranged(codes)
    assert (np.bincount(tau, minlength=n) == 1).all()
    total = inversions(tau)
    assert total == codes.sum()
    mean = benchmark.expected_inversions(n, theta)
    deviation = benchmark.inversions_deviation(n, theta)
    assert abs(total - mean) < 5 * deviation
    # A large θ leaves few inversions, which vary: so many draws that the mean tells 0.5 %.
    draws = math.ceil((3 * deviation / mean / 0.005) ** 2)
    totals = [total, *(kendall.kendall_codes(n, theta, rng).sum() for _ in range(draws - 1))]
    assert np.mean(totals) == pytest.approx(mean, rel=0.005)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200, 4097])
@pytest.mark.parametrize("theta", [0.0, 1e-3, 0.2])
def test_insertion_and_tree_write_same_list(n, theta):
    codes = kendall.kendall_codes(n, theta, np.random.default_rng(n))
    expected = []
    for item, code in enumerate(codes):
        expected.insert(item - code, item)
    for write in (insert, fill_slots):
        reverse = np.empty(n, dtype=np.int32)
        write(codes.astype(np.int32), reverse)
        assert reverse[::-1].tolist() == expected
    assert kendall.arranged(codes).tolist() == expected
    assert inversions(expected) == codes.sum()


def test_largest_and_smallest_codes():
    n = 1000
    assert (kendall.arranged(np.arange(n)) == np.arange(n)[::-1]).all()
    assert (kendall.arranged(np.zeros(n, dtype=int)) == np.arange(n)).all()


def test_zero_theta_is_uniform_and_infinite_theta_is_identity():
    for draw in SAMPLERS.values():
        for exact in (False, True):
            rng = np.random.default_rng(2)
            assert (draw(50, math.inf, rng, exact=exact) == np.arange(50)).all()
            uniform = draw(20_000, 0.0, rng, exact=exact)
            assert (np.sort(uniform) == np.arange(20_000)).all()
            share = inversions(uniform) / (20_000 * 19_999 / 2)
            assert share == pytest.approx(0.5, abs=0.02)
    assert not kendall.kendall_codes(9, math.inf, np.random.default_rng(1)).any()


@pytest.mark.parametrize("theta", [5e-324, 1e-300, 1e-20, 1e3, 1e300])
@pytest.mark.parametrize("draw", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_extreme_theta(draw, theta):
    tau = draw(1000, theta, np.random.default_rng(3))
    assert (np.sort(tau) == np.arange(1000)).all()
    assert (tau == np.arange(1000)).all() == (theta > 1)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("draw", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_seeds_reproduce(draw, exact):
    first, again, other = (
        draw(2_000, 0.05, np.random.default_rng(seed), exact=exact) for seed in (1, 1, 2)
    )
    assert first.dtype == np.int64
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("draw", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_system_generator_draws_permutation(draw):
    for exact in (False, True):
        tau = draw(500, 0.1, system_generator(), exact=exact)
        assert (np.sort(tau) == np.arange(500)).all()


def test_permutation_of_million_needs_little_memory():
    rng = np.random.default_rng(4)
    kendall.kendall_permutation(100, 1e-3, rng)
    for draw in SAMPLERS.values():
        tracemalloc.start()
        draw(10**6, 1e-3, rng)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 60e6


def test_conjugated_order_gives_sources():
    # The worked example of the paper, with people from 0: an order, what was drawn, who gets whose.
    order = np.array([5, 2, 3, 8, 4, 1, 6, 7]) - 1
    shuffled = np.array([3, 2, 5, 4, 8, 1, 7, 6]) - 1
    tau = np.argsort(order)[shuffled]
    assert (order[tau] == shuffled).all()
    sources = kendall.conjugated(order, tau)
    assert (sources + 1).tolist() == [1, 2, 5, 8, 3, 7, 6, 4]
    with pytest.raises(InvalidCrowd, match="8 people cannot be shuffled by 7 ranks"):
        kendall.conjugated(order, tau[:7])


def test_conjugation_is_a_permutation_that_moves_as_many():
    rng = np.random.default_rng(6)
    order, tau = rng.permutation(60), hamming.hamming_permutation(60, 3.0, rng)
    sources = kendall.conjugated(order, tau)
    for rank in range(60):
        assert sources[order[rank]] == order[tau[rank]]
    assert moved(sources) == moved(tau) > 0
    assert (np.sort(sources) == np.arange(60)).all()


@pytest.mark.parametrize("theta", [0.0, 1e-6, 0.1, 1.0, 4.0, math.inf])
def test_sums_against_enumeration(theta, benchmark):
    n = 6
    every = list(permutations(range(n)))
    means = {"kendall": benchmark.expected_inversions, "hamming": hamming.expected_moved}
    for distance, mean in means.items():
        sizes = np.array([DISTANCES[distance](tau) for tau in every])
        with np.errstate(invalid="ignore"):
            weights = np.where(sizes == 0, 1.0, np.exp(-theta * sizes))
        chances = weights / weights.sum()
        assert mean(n, theta) == pytest.approx(chances @ sizes, rel=1e-12, abs=1e-300)
        if distance == "kendall":
            variance = chances @ (sizes - chances @ sizes) ** 2
            found = benchmark.inversions_deviation(n, theta)
            assert found == pytest.approx(math.sqrt(variance), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("theta", [1e-12, 1e-5, 3e-3, 0.2, 1.0, 30.0])
def test_sums_against_many_digits(theta, benchmark):
    from mpmath import mp, mpf

    mp.prec = 300
    n, t = 700, mpf(theta)
    mean = sum(1 / mp.expm1(t) - i / mp.expm1(i * t) for i in range(1, n + 1))
    variance = sum(
        mp.exp(t) / mp.expm1(t) ** 2 - i**2 * mp.exp(i * t) / mp.expm1(i * t) ** 2
        for i in range(1, n + 1)
    )
    assert benchmark.expected_inversions(n, theta) == pytest.approx(float(mean), rel=1e-12)
    deviation = float(mp.sqrt(variance))
    assert benchmark.inversions_deviation(n, theta) == pytest.approx(deviation, rel=1e-11)
    x = mp.expm1(t)
    total = sum(x**q / mp.factorial(q) for q in range(n + 1))
    last = x**n / mp.factorial(n) / total
    moved_mean = n - (x + 1) * (1 - last)
    assert hamming.expected_moved(n, theta) == pytest.approx(float(moved_mean), rel=1e-11)


@pytest.mark.parametrize("theta", [0.5, 8.0, 13.0])
def test_hamming_permutation_of_million_has_expected_moves(theta):
    n = 10**6
    tau = hamming.hamming_permutation(n, theta, np.random.default_rng(31))
    assert (np.bincount(tau, minlength=n) == 1).all()
    fixed = n - int(np.count_nonzero(tau != np.arange(n)))
    mean = n - hamming.expected_moved(n, theta)
    assert abs(fixed - mean) < 6 * math.sqrt(mean + 1)


@pytest.mark.parametrize("theta", [-0.1, math.nan, "1", True, None, -math.inf])
def test_samplers_reject_impossible_theta(theta):
    for call in (
        lambda: kendall.kendall_permutation(5, theta, np.random.default_rng(1)),
        lambda: hamming.hamming_permutation(5, theta, np.random.default_rng(1)),
        lambda: kendall.kendall_codes(5, theta, np.random.default_rng(1)),
        lambda: hamming.expected_moved(5, theta),
    ):
        with pytest.raises(InvalidParameter, match="theta must be"):
            call()


def test_samplers_reject_impossible_crowds_and_codes():
    with pytest.raises(InvalidCrowd):
        kendall.kendall_permutation(0, 1.0, np.random.default_rng(1))
    with pytest.raises(InvalidCrowd, match="at once"):
        kendall.kendall_permutation(2**31, 1.0, np.random.default_rng(1))
    with pytest.raises(InvalidParameter, match="code 2 must be 0 to 2, got 3"):
        kendall.arranged([0, 1, 3])
    with pytest.raises(InvalidParameter, match="code 1 must be 0 to 1, got -1"):
        kendall.arranged([0, -1, 1])
    with pytest.raises(IncrowdError, match="one list"):
        kendall.arranged([[0, 1]])
    with pytest.raises(InvalidParameter, match="too large for exact draws"):
        hamming.hamming_permutation(5, 2e3, np.random.default_rng(1), exact=True)


@pytest.fixture(scope="module")
def benchmark():
    with loaded("order_shuffle") as module:
        yield module


def test_c_sampler_follows_kendall_law(benchmark, tmp_path):
    sample = benchmark.compiled_sampler(tmp_path)
    if isinstance(sample, str):
        pytest.skip(sample)
    every, chances = law(4, 0.5, "kendall")
    _, wrong = law(4, 0.6, "kendall")
    observed = counted([sample(4, 0.5, seed << 40) for seed in range(6_000)], every)
    assert chisquare(observed, chances * 6_000).pvalue > DOUBT
    assert chisquare(observed, wrong * 6_000).pvalue < DOUBT


def test_benchmark_without_a_compiler(benchmark, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler" in benchmark.compiled_sampler(tmp_path)


def test_counts_of_inversions_agree(benchmark):
    for n in (1, 2, 7, 100, 1000):
        tau = np.random.default_rng(n).permutation(n)
        assert benchmark.inversions(tau) == inversions(tau) == pairs_out_of_order(tau)


def test_benchmark_of_few_ranks(benchmark, monkeypatch, capsys):
    # Times of so few ranks mean nothing; everything else must be there and hold.
    options = ["--ranks", "3e3", "--repeats", "1", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["order_shuffle.py", *options])
    benchmark.main()
    found = json.loads(capsys.readouterr().out)["results"]
    assert all(each["holds"] for each in found if each["name"].startswith("inversions"))
    assert sum(each["name"].startswith("C over ours") for each in found) == 3
