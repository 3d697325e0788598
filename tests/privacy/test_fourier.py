"""The certified bracket against exact sums: inside always, narrow where it should be."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest

from incrowd.privacy import multinomial
from incrowd.privacy.fourier import SumLaw

LAWS = {
    "binary": ([2.0, -3.0], [0.3, 0.25]),
    "lattice with mean zero": ([1.0, -1.0], [0.5, 0.5]),
    "four atoms": ([5.5, -6.0, -0.2, -1.1], [0.1, 0.11, 0.5, 0.2]),
    "rare and large": ([2900.0, -3100.0, -0.5], [3e-4, 3e-4, 0.4]),
    "one sided": ([-1.0, -2.0], [0.5, 0.25]),
}


def law(name, n):
    value, mass = map(np.array, LAWS[name])
    return SumLaw(value, mass, np.abs(value), n)


@cache
def exact(name, n, digits=40):
    """E[S₊] in arbitrary precision, by convolving the law with itself n times."""
    values, masses = LAWS[name]
    with mpmath.workdps(digits):
        sums = {mpmath.mpf(0): mpmath.mpf(1)}
        atoms = [(mpmath.mpf(v), mpmath.mpf(m)) for v, m in zip(values, masses, strict=True)]
        rest = 1 - sum(m for _, m in atoms)
        atoms.append((mpmath.mpf(0), rest if rest > mpmath.mpf(10) ** -15 else mpmath.mpf(0)))
        for _ in range(n):
            following = {}
            for s, p in sums.items():
                for v, m in atoms:
                    key = mpmath.nint((s + v) * 10) / 10
                    following[key] = following.get(key, mpmath.mpf(0)) + p * m
            sums = following
        return float(sum(p * s for s, p in sums.items() if s > 0))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_enumeration_encloses_exact_value(name, n):
    found, truth = multinomial.positive_part(law(name, n)), exact(name, n)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower <= 1e-9 * max(truth, 1)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [2, 7, 20])
@pytest.mark.parametrize("smoothing", [3e-2, 4e-3, 2e-4])
def test_transform_bracket_encloses_exact_value(name, n, smoothing):
    truth = exact(name, n)
    found = law(name, n).positive_part(smoothing)
    assert found.lower <= truth <= found.upper
    if truth > 0 and name != "rare and large":  # there most of the mass sits at zero, smoothed away
        assert found.upper - found.lower <= 2.5 * smoothing * found.upper


@pytest.mark.parametrize("name", ["binary", "four atoms", "rare and large"])
def test_bracket_narrows_with_smoothing(name):
    widths = [
        (found := law(name, 300).positive_part(smoothing)).upper - found.lower
        for smoothing in (1e-2, 1e-3, 1e-4)
    ]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("n", [10, 1000, 10**6, 10**9, 10**12])
def test_skipping_negligible_terms_keeps_bracket(n, monkeypatch):
    """Summing every term gives the same bracket as skipping those that are provably dead."""
    case = law("four atoms", n)
    skipped = case.positive_part(2e-2)
    monkeypatch.setattr(SumLaw, "_live", lambda self, saddle, step, terms, log_m: np.arange(terms))
    whole = case.positive_part(2e-2)
    assert whole.upper == pytest.approx(skipped.upper, rel=1e-12, abs=1e-280)


def test_bracket_of_tiny_tail_keeps_relative_accuracy():
    """P(S > 0) of 10⁻²⁰⁰ and below: compare with the exact binomial sum in high precision."""
    n, shift = 400, 0.9037  # no outcome at zero, where smoothing shows most
    value, mass = np.array([1 - shift, -shift]), np.array([0.2, 0.8])
    with mpmath.workdps(60):
        p, s = mpmath.mpf(0.2), mpmath.mpf(shift)
        truth = mpmath.fsum(
            mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) * (k - n * s)
            for k in range(n + 1)
            if k > n * s
        )
    found = SumLaw(value, mass, np.abs(value), n).positive_part(1e-3)
    assert 1e-230 < truth < 1e-150
    assert found.lower <= truth <= found.upper
    assert found.upper <= float(truth) * 1.01


def test_bound_below_double_range_stays_positive():
    found = SumLaw(np.array([0.01, -0.99]), np.array([0.5, 0.5]), np.ones(2), 10**6)
    assert 0 < found.positive_part(1e-2).upper < 1e-250


def test_bracket_of_huge_crowd_equals_normal_limit():
    """For a huge crowd the sum is normal: E[S₊] = σ·√n/√(2π) when the mean is zero."""
    n = 10**12
    found = law("lattice with mean zero", n).positive_part(1e-3)
    assert found.lower <= math.sqrt(n / (2 * math.pi)) <= found.upper * (1 + 1e-9)
    assert found.upper == pytest.approx(math.sqrt(n / (2 * math.pi)), rel=1e-5)


@pytest.mark.parametrize("rare", [1e-14, 1e-12])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_nearly_vanishing_transform_keeps_digits(rare, n):
    """All but a rare atom negative: M(λ) is tiny, and its logarithm must not lose its digits."""
    a, b = np.ones(14), np.array([0.0] + [1.0] * 13)
    mass = np.array([rare] + [(1 - 2**-50 - rare) / 13] * 13)
    t = 2 * math.exp(-1e-3)
    value = a - t * b
    with mpmath.workdps(80):
        p, low, high = mpmath.mpf(rare), mpmath.mpf(value[1]), mpmath.mpf(1)
        common = mpmath.fsum(mpmath.mpf(m) for m in mass[1:])
        rest = 1 - p - common
        truth = mpmath.fsum(
            mpmath.factorial(n)
            / (mpmath.factorial(k) * mpmath.factorial(c) * mpmath.factorial(n - k - c))
            * p**k * common**c * rest ** (n - k - c) * max(k * high + c * low, 0)
            for k in range(n + 1)
            for c in range(n - k + 1)
        )  # fmt: skip
    found = SumLaw(value, mass, a + t * b, n).positive_part(4e-3)
    assert 0 <= found.lower <= truth <= found.upper


def test_extreme_smoothing_returns_cheap_bound():
    found = SumLaw(np.array([1.0, -1.0]), np.array([6.8e-17, 1.0]), np.ones(2), 3)
    assert found.positive_part(4e-3, 1e9).upper >= 0
