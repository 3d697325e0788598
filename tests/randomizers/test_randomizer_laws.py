"""Laws and draws of the discrete randomizers against their output laws, written out by hand.

The oracle lists every output with its probability for every input, from the definition of the
mechanism alone. Blankets and attacks are then grouped by brute force, and drawn reports are
compared with the same list by a chi-square test.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.stats import chi2

from incrowd.randomizers import (
    KRR,
    OLH,
    OUE,
    RR,
    SUE,
    Generic,
    HadamardResponse,
    OneBit,
    PairLaw,
    Randomizer,
    Ternary,
    local_hash,
)

EPSILONS = (0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Oracle:
    """``table[x, y]`` = R_x(y), and the blanket that the randomizer claims."""

    table: np.ndarray
    blanket: np.ndarray


def response(epsilon: float, k: int) -> Oracle:
    top = math.exp(epsilon)
    table = (np.ones((k, k)) + (top - 1) * np.eye(k)) / (top + k - 1)
    return Oracle(table, table.min(axis=0))


def unary(p: float, q: float, k: int) -> Oracle:
    outputs = list(product((0, 1), repeat=k))
    table = np.array(
        [
            [
                math.prod(
                    (p if i == x else q) if bit else 1 - (p if i == x else q)
                    for i, bit in enumerate(y)
                )
                for y in outputs
            ]
            for x in range(k)
        ]
    )
    noise = np.array([math.prod(q if bit else 1 - q for bit in y) for y in outputs])
    return Oracle(table, noise * (1 - p) / (1 - q))


def oue(epsilon: float, k: int) -> Oracle:
    return unary(0.5, 1 / (math.exp(epsilon) + 1), k)


def sue(epsilon: float, k: int) -> Oracle:
    q = 1 / (math.exp(epsilon / 2) + 1)
    return unary(1 - q, q, k)


def hadamard_response(epsilon: float, k: int) -> Oracle:
    size = 2 ** math.ceil(math.log2(k + 1))
    rows = hadamard(size)[1 : k + 1]
    top = math.exp(epsilon)
    table = np.where(rows > 0, top, 1.0) * 2 / (size * (top + 1))
    return Oracle(table, np.full(size, 2 / (size * (top + 1))))


def hashing(epsilon: float, k: int, prime: int, buckets: int) -> Oracle:
    top, z = math.exp(epsilon), math.exp(epsilon) + buckets - 1
    columns = []
    for first, second, y in product(range(1, prime), range(prime), range(buckets)):
        bucket = [((first * x + second) % prime) % buckets for x in range(k)]
        columns.append([(top if h == y else 1.0) / (z * prime * (prime - 1)) for h in bucket])
    table = np.array(columns).T
    return Oracle(table, np.full(len(columns), 1 / (z * prime * (prime - 1))))


def grouped(a: np.ndarray, b: np.ndarray, mass: np.ndarray) -> dict[tuple[float, float], float]:
    groups: Counter[tuple[float, float]] = Counter()
    for key_a, key_b, weight in zip(a, b, mass, strict=True):
        groups[(round(float(key_a), 9), round(float(key_b), 9))] += float(weight)
    return dict(groups)


def assert_same_law(law: PairLaw, a: np.ndarray, b: np.ndarray, mass: np.ndarray) -> None:
    ours, theirs = grouped(law.a, law.b, law.mass), grouped(a, b, mass)
    assert ours.keys() == theirs.keys()
    for point, weight in theirs.items():
        assert ours[point] == pytest.approx(weight, rel=1e-12)


def assert_blanket(law: PairLaw, oracle: Oracle, x0: int = 0, x1: int = 1) -> None:
    w = oracle.blanket
    assert np.all(w <= oracle.table.min(axis=0) * (1 + 1e-12)), "not below every output law"
    assert_same_law(law, oracle.table[x0] / w, oracle.table[x1] / w, w)


def assert_attack(law: PairLaw, oracle: Oracle, others: int, x0: int = 0, x1: int = 1) -> None:
    w = oracle.table[others]
    assert_same_law(law, oracle.table[x0] / w, oracle.table[x1] / w, w)


def cases() -> list[tuple[Randomizer, Oracle]]:
    found: list[tuple[Randomizer, Oracle]] = []
    for epsilon in EPSILONS:
        found += [(RR(epsilon=epsilon), response(epsilon, 2))]
        for k in (2, 3, 4, 5):
            found += [
                (KRR(epsilon=epsilon, categories=k), response(epsilon, k)),
                (OUE(epsilon=epsilon, categories=k), oue(epsilon, k)),
                (SUE(epsilon=epsilon, categories=k), sue(epsilon, k)),
                (HadamardResponse(epsilon=epsilon, categories=k), hadamard_response(epsilon, k)),
            ]
    return found


def case_name(value: object) -> str:
    if isinstance(value, Randomizer):
        return f"{value.kind}-{getattr(value, 'categories', '')}-{value.epsilon}"
    return ""


@pytest.mark.parametrize(("randomizer", "oracle"), cases(), ids=case_name)
class TestAgainstEnumeration:
    def test_enumerated_matrix_has_ratio_e_epsilon(self, randomizer, oracle):
        assert np.allclose(oracle.table.sum(axis=1), 1)
        worst = (oracle.table.max(axis=0) / oracle.table.min(axis=0)).max()
        assert worst == pytest.approx(math.exp(randomizer.epsilon), rel=1e-12)

    def test_blanket_equals_enumeration_for_all_pairs(self, randomizer, oracle):
        k = len(oracle.table)
        for x0, x1 in product(range(k), repeat=2):
            if x0 != x1:
                assert_blanket(randomizer.blanket(), oracle, x0, x1)

    def test_blanket_equals_envelope_where_some_input_is_low(self, randomizer, oracle):
        low = oracle.table.min(axis=0) < 0.999 * oracle.table.max(axis=0)
        assert np.allclose(oracle.blanket[low], oracle.table.min(axis=0)[low], rtol=1e-12)

    def test_attacks_equal_enumeration(self, randomizer, oracle):
        laws, k = randomizer.attack(), len(oracle.table)
        if k == 2 or isinstance(randomizer, KRR):
            assert_attack(laws[0], oracle, others=1)
            assert_attack(laws[1], oracle, others=0)
            if k > 2:
                assert_attack(laws[2], oracle, others=2)
            assert len(laws) == min(k, 3)
        else:
            assert_attack(laws[0], oracle, others=2)
            if isinstance(randomizer, HadamardResponse) and k >= 4:
                assert_attack(laws[1], oracle, others=3)
                assert len(laws) == 2
            else:
                assert len(laws) == 1

    def test_drawn_reports_have_enumerated_law(self, randomizer, oracle, rng):
        n = 20_000
        for x in range(len(oracle.table)):
            counts = self.counts(randomizer, np.full(n, x), oracle.table.shape[1], rng)
            expected = n * oracle.table[x]
            likely = expected > 5
            rest = [counts[~likely].sum()], [expected[~likely].sum()]
            seen = np.append(counts[likely], rest[0])
            hoped = np.append(expected[likely], rest[1])
            seen, hoped = seen[hoped > 0], hoped[hoped > 0]
            statistic = float(((seen - hoped) ** 2 / hoped).sum())
            assert statistic < chi2.isf(1e-5, hoped.size - 1)

    def test_observed_likelihood_ratio_stays_below_e_epsilon(self, randomizer, oracle, rng):
        """Never above e^ε0 by more than chance, and close to it somewhere: the test can fail."""
        n, outputs = 100_000, oracle.table.shape[1]
        first, second = (
            self.counts(randomizer, np.full(n, x), outputs, rng).astype(float) for x in (0, 1)
        )
        enough = (first > 100) & (second > 100)
        ratio, chance = first[enough] / second[enough], 1 / first[enough] + 1 / second[enough]
        z = (np.abs(np.log(ratio)) - randomizer.epsilon) / np.sqrt(chance)
        assert z.max() < 4.5
        assert np.abs(np.log(ratio)).max() > 0.8 * randomizer.epsilon

    @staticmethod
    def counts(
        randomizer: Randomizer, values: np.ndarray, outputs: int, rng: np.random.Generator
    ) -> np.ndarray:
        reports = randomizer.randomize(values, rng)
        if reports.ndim == 2:  # packed bits, category 0 first: in the order of the oracle
            k = randomizer.categories  # type: ignore[attr-defined]
            assert np.unpackbits(reports, axis=1, bitorder="little")[:, k:].sum() == 0
            bits = np.unpackbits(reports, axis=1, bitorder="little", count=k)
            reports = bits @ (1 << np.arange(k)[::-1])
        return np.bincount(reports, minlength=outputs)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("prime", [7, 13, 31])
def test_olh_law_equals_enumeration_of_small_hash_family(epsilon, k, prime, monkeypatch):
    """The same code with a small prime, where all hashes can be listed."""
    randomizer = OLH(epsilon=epsilon, categories=k)
    monkeypatch.setattr(local_hash, "MERSENNE", prime)
    g = randomizer.buckets
    oracle = hashing(epsilon, k, prime, g)
    assert_blanket(randomizer.blanket(), oracle)
    assert_blanket(randomizer.blanket(), oracle, k - 1, 0)
    assert_attack(randomizer.attack()[0], oracle, others=1)
    assert_attack(randomizer.attack()[1], oracle, others=0)
    own, other = randomizer.support_probabilities()
    supports = np.array(
        [
            [((a * x + b) % prime) % g == y for x in range(k)]
            for a, b, y in product(range(1, prime), range(prime), range(g))
        ]
    )
    chance = oracle.table @ supports
    assert np.diag(chance) == pytest.approx(np.full(k, own), rel=1e-12)
    assert chance[~np.eye(k, dtype=bool)] == pytest.approx(np.full(k * k - k, other), rel=1e-12)


def test_olh_draws_have_stated_law(rng):
    randomizer, n = OLH(epsilon=1.0, categories=50), 200_000
    values = rng.integers(0, 50, n)
    a, b, y = randomizer.randomize(values, rng).astype(object).T
    bucket = (a * values + b) % (2**31 - 1) % randomizer.buckets
    top = math.exp(1.0)
    p = top / (top + randomizer.buckets - 1)
    assert abs(np.mean(bucket == y) - p) < 4.5 * math.sqrt(p * (1 - p) / n)
    shift = ((y - bucket) % randomizer.buckets).astype(int)
    wrong = np.bincount(shift, minlength=randomizer.buckets)[1:]
    assert np.abs(wrong - wrong.mean()).max() < 4.5 * math.sqrt(wrong.mean())
    for word in (a, b):
        parts = np.bincount((word * 64 // 2**31).astype(int), minlength=64)
        assert ((parts - n / 64) ** 2 / (n / 64)).sum() < chi2.isf(1e-5, 63)


def test_hash_support_equals_direct_count(rng):
    randomizer = OLH(epsilon=2.3, categories=37)
    reports = randomizer.randomize(rng.integers(0, 37, 300), rng)
    a, b, y = (reports[:, [j]].astype(object) for j in range(3))
    support = ((a * np.arange(37) + b) % (2**31 - 1) % randomizer.buckets == y).sum(axis=0)
    own, other = randomizer.support_probabilities()
    expected = (support.astype(float) / 300 - other) / (own - other)
    assert randomizer.estimate(reports).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 3.3, 7.0, 11.5, 30.0])
def test_olh_buckets_minimise_variance(epsilon):
    g, top = OLH(epsilon=epsilon, categories=4).buckets, math.exp(epsilon)

    def variance(buckets: int) -> float:
        return (top + buckets - 1) ** 2 / (buckets - 1)

    assert 2 <= g <= 65536
    neighbours = [b for b in (g - 1, g + 1) if 2 <= b <= 65536]
    assert all(variance(g) <= variance(b) for b in neighbours)


def test_walsh_hadamard_equals_matrix_product(rng):
    from incrowd.randomizers.hadamard import walsh_hadamard

    for size in (1, 2, 8, 64):
        values = rng.standard_normal(size)
        assert walsh_hadamard(values) == pytest.approx(hadamard(size) @ values)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_generic_and_onebit_laws_equal_binary_response(epsilon):
    binary = response(epsilon, 2)
    for randomizer in (Generic(epsilon=epsilon), OneBit(epsilon=epsilon)):
        assert_blanket(randomizer.blanket(), binary)
        assert_attack(randomizer.attack()[0], binary, others=1)
        assert_attack(randomizer.attack()[1], binary, others=0)
    assert_attack(Generic(epsilon=epsilon).attack()[-1], response(epsilon, 3), others=2)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ternary_laws_equal_krr_over_three_outcomes(epsilon):
    three, randomizer = response(epsilon, 3), Ternary(epsilon=epsilon)
    assert_blanket(randomizer.blanket(), three)
    assert_attack(randomizer.attack()[0], three, others=1)
    assert_attack(randomizer.attack()[1], three, others=0)
    assert_attack(randomizer.attack()[2], three, others=2)
    krr = KRR(epsilon=epsilon, categories=3)
    for at in (-1.0, 0.0, epsilon / 2, epsilon):
        assert randomizer.local_delta(at) == krr.local_delta(at)


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0, math.nan])
def test_ternary_draws_have_mixture_law(value, rng):
    randomizer, n = Ternary(epsilon=1.0), 100_000
    held = [0, 0, 1] if math.isnan(value) else [1 - value, value, 0]
    expected = n * (np.array(held) @ response(1.0, 3).table)
    for drawn in (randomizer.randomize, randomizer.randomize_exactly):
        found = np.bincount(drawn(np.full(n, value), rng), minlength=3)
        assert chi2.sf(((found - expected) ** 2 / expected).sum(), 2) > 1e-4


def test_onebit_draws_have_mixture_law(rng):
    randomizer, n = OneBit(epsilon=1.0), 100_000
    truth = math.e / (1 + math.e)
    for value in (0.0, 0.25, 1.0):
        chance = value * truth + (1 - value) * (1 - truth)
        share = randomizer.randomize(np.full(n, value), rng).mean()
        assert abs(share - chance) < 4.5 * math.sqrt(chance * (1 - chance) / n)


def test_categorical_randomizers_handle_many_categories(rng):
    """More byte columns than one block of the server's histogram, and codes of two bytes."""
    k = 20_001
    for kind in (KRR, OUE, HadamardResponse):
        randomizer = kind(epsilon=6.0, categories=k)
        values = np.concatenate([np.full(6000, k - 1), np.full(2000, 17)])
        estimate = randomizer.estimate(randomizer.randomize(values, rng))
        assert estimate.value.shape == (k,)
        error = np.abs(estimate.value[[k - 1, 17]] - [0.75, 0.25])
        assert np.all(error < 4.5 * np.sqrt(estimate.variance[[k - 1, 17]]))


def test_pair_law_repr_is_short():
    law = KRR(categories=3, epsilon=1.0).blanket()
    assert repr(law) == f"PairLaw(3 atoms, γ = {3 / (math.e + 2):.3g})"
    cut = PairLaw.of([1.0, 1.0], [1.0, 1.0], [0.5, 0.5], escaped=1e-6)
    assert repr(cut) == "PairLaw(2 atoms, γ = 1, escaped = 1e-06)"


@pytest.mark.parametrize("kind", [KRR, OUE, OLH, HadamardResponse])
@pytest.mark.parametrize("number", [float, np.int64, np.float32])
def test_randomizers_from_equal_numbers_of_any_type_are_equal(kind, number):
    described = kind(categories=number(3), epsilon=np.float32(1))
    assert described == kind(categories=3, epsilon=1.0)
    assert (type(described.categories), type(described.epsilon)) == (int, float)
    values = np.array([0, 1, 2])
    drawn = described.randomize(values, np.random.default_rng(1))
    plain = kind(categories=3, epsilon=1.0).randomize(values, np.random.default_rng(1))
    assert np.array_equal(drawn, plain)
