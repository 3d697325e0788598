"""The probabilities that are drawn: never above the stated ε, and never far below."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest, norm

from incrowd.randomizers import _kernels, _lattice

EPSILONS = [1e-6, 0.1, 0.5, 1.0, 2.0, 3.7, 8.0, 20.0, 30.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("answers", [2, 3, 128, 10**6])
def test_response_odds_are_just_below_e_epsilon(epsilon, answers):
    with mpmath.workdps(60):
        top = mpmath.exp(mpmath.mpf(epsilon))
        exact = (top - 1) / (top + answers - 1)
        keep = mpmath.mpf(_lattice.keep_probability(epsilon, answers))
        assert exact - mpmath.mpf(2) ** -53 < keep <= exact
        assert 1 + answers * keep / (1 - keep) <= top


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_truth_odds_are_just_below_e_epsilon(epsilon):
    with mpmath.workdps(60):
        top = mpmath.exp(mpmath.mpf(epsilon))
        truth = mpmath.mpf(_lattice.truth_probability(epsilon))
        assert top / (top + 1) - mpmath.mpf(2) ** -53 < truth <= top / (top + 1)
        raised = mpmath.mpf(1 - _lattice.truth_probability(epsilon))
        assert raised == 1 - truth, "the complement is exact"


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_odds_equal_ratio_of_probabilities(epsilon):
    top = float(mpmath.exp(epsilon))
    assert _lattice.truth_odds(epsilon) == pytest.approx(top, rel=1e-11)
    assert _lattice.response_odds(epsilon, 5) == pytest.approx(top, rel=1e-11)


@pytest.mark.parametrize("probability", [0.5, 0.25, 2.0**-20, 0.26894142136999510, 1 - 2.0**-53])
def test_binary_expansion_equals_probability(probability):
    digits = _kernels._binary_expansion(probability, 53)
    assert sum(2.0 ** -(j + 1) for j in np.flatnonzero(digits)) == probability
    assert digits[-1]


@pytest.mark.parametrize("probability", [0.5, 0.2689414213699951, 0.01, 0.9])
def test_bernoulli_bits_are_independent_with_probability(probability, rng):
    n = 1 << 18
    packed = _kernels.bernoulli_bits(n, probability, 53, rng)
    bits = np.unpackbits(packed, bitorder="little").reshape(-1, 64).astype(float)
    spread = np.sqrt(probability * (1 - probability) / bits.size)
    assert abs(bits.mean() - probability) < 4.5 * spread
    assert np.abs(bits.mean(axis=0) - probability).max() < 5 * spread * 8
    correlation = np.corrcoef(bits.T)[np.triu_indices(64, 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(len(bits))
    assert abs(np.corrcoef(bits[:-1].ravel(), bits[1:].ravel())[0, 1]) < 5 / np.sqrt(bits.size)


def test_bernoulli_words_use_all_places_of_expansion():
    """All lanes agree with the probability to the last place: they are not below it."""
    expansion = np.array([True, False, True])
    ones, zeros = ~np.uint64(0), np.uint64(0)
    out = np.empty(1, np.uint64)
    for words, expected in (
        ([ones, zeros, ones], zeros),  # 0.101 is not below 0.101
        ([ones, zeros, zeros], ones),  # 0.100 is
        ([zeros, ones, ones], ones),  # 0.0… is, decided at once
        ([ones, ones, zeros], zeros),  # 0.11 is not
    ):
        assert _kernels.bernoulli_words(out, expansion, np.array(words, np.uint64)) == 1
        assert out[0] == expected


def test_bernoulli_words_stop_before_running_out():
    out = np.empty(3, np.uint64)
    expansion = np.array([False, True])
    words = np.zeros(3, np.uint64)
    assert _kernels.bernoulli_words(out, expansion, words) == 1


def normals(count: int, rng: np.random.Generator) -> np.ndarray:
    out = np.full(count, np.nan, np.float32)
    _kernels.fill_normals(out, np.empty(count, np.int32), rng)
    return out.astype(np.float64)


def test_ziggurat_layers_close_at_the_top():
    widths, heights = _kernels._WIDTHS, _kernels._HEIGHTS
    assert widths.size == 257
    assert np.all(np.diff(widths) < 0)
    areas = widths[1:-1] * np.diff(heights[1:])
    assert areas == pytest.approx(np.full(255, widths[0] * heights[1]), rel=1e-12)
    total = 256 * areas[0]
    outside = sum(areas) + areas[0] - norm.cdf(0) * np.sqrt(2 * np.pi)
    assert 0 < outside < 0.02 * total, "layers cover the curve and little more"


def test_fill_normals_has_normal_law(rng):
    drawn = normals(1_000_001, rng)
    assert kstest(drawn, norm.cdf).pvalue > 1e-4
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        error = (drawn**power).mean() - expected
        assert abs(error) < 4.5 * np.sqrt(variance / drawn.size)
    beyond = np.count_nonzero(np.abs(drawn) > _kernels._TAIL)
    expected = drawn.size * 2 * norm.sf(_kernels._TAIL)
    assert abs(beyond - expected) < 4.5 * np.sqrt(expected)
    tail = np.abs(drawn[np.abs(drawn) > _kernels._TAIL])
    conditional = norm.sf(tail) / norm.sf(_kernels._TAIL)
    assert kstest(conditional, "uniform").pvalue > 1e-4


def test_fill_normals_has_normal_law_in_layer_corners(rng):
    """Where second attempts decide: a fine histogram around the ends of all layers."""
    drawn = np.abs(normals(2_000_000, rng))
    edges = np.sort(_kernels._WIDTHS[1:])
    counts = np.histogram(drawn, edges)[0]
    expected = drawn.size * 2 * np.diff(norm.cdf(edges))
    z = (counts - expected) / np.sqrt(expected)
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() < 1.4


@pytest.mark.parametrize("count", [0, 1, 2, 3, 65_535, 65_537])
def test_fill_normals_fills_arrays_of_any_size(count, rng):
    drawn = normals(count, rng)
    assert np.all(np.isfinite(drawn))
    assert np.unique(drawn).size >= 0.99 * count
