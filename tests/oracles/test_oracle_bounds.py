"""The accountant against exact enumeration: never below the truth, and no higher than it must be.

An oracle works at rational t; the accountant at ε, a double. δ falls with ε, so an upper bound is
asked for at an ε just below ln t, and a lower one just above it: then the comparison is exact.
"""

import math
import random
from fractions import Fraction as F
from itertools import permutations, product

import pytest
from enumeration import (
    Matrix,
    attack_law_of_matrix,
    blanket_atoms,
    clones_atoms,
    functional,
    generic_atoms,
    hadamard_matrix,
    krr_matrix,
    pair_law_of_matrix,
    random_matrix,
    true_delta,
    unary_matrix,
    worst_delta,
)
from variation_ratio import attack_delta

from incrowd.privacy import ComposedProfile, LocalProfile, ShuffleProfile, clones_law
from incrowd.randomizers import KRR, OUE, RR, Generic, HadamardResponse, OneBit

TS = (F(1, 4), F(2, 3), F(1), F(6, 5), F(3, 2), F(5, 2))
LISTED = 1e-9
"""The relative width of a bracket when the accountant lists all outcomes."""


def _down(t: F | int) -> float:
    return math.log(t) - 4 * math.ulp(max(1.0, abs(math.log(t))))


def _up(t: F | int) -> float:
    return math.log(t) + 4 * math.ulp(max(1.0, abs(math.log(t))))


def _generic(E: F) -> Generic:
    return Generic(epsilon=_up(E))


def _profile(law, n: int, E: F, attacks=()) -> ShuffleProfile:
    return ShuffleProfile(law, n, LocalProfile(_generic(E)), attacks)


# k-ary randomized response: all data sets


def _check_krr(k: int, n: int, E: F) -> list[F]:
    """Every bound against the truth; returns truth / bound at each t > 1."""
    R = krr_matrix(k, E)
    truth = worst_delta(R, n, TS, pairs=[(0, 1)])
    own = KRR(categories=k, epsilon=_up(E))
    profile = ShuffleProfile(own.blanket(), n, LocalProfile(own))
    generic = _profile(_generic(E).blanket(), n, E)
    clones = _profile(clones_law(_up(E)), n, E)
    shares = []
    for t in TS:
        exact = functional(blanket_atoms(R, 0, 1), n, t)
        bracket = profile.bracket(_down(t))
        assert F(bracket.upper) >= exact
        assert bracket.upper == pytest.approx(float(exact), rel=LISTED, abs=1e-12)
        assert F(profile.bracket(_up(t)).lower) <= exact
        for each in (profile, generic, clones):
            assert F(each.delta(_down(t))) >= truth[t]
        if truth[t] and t > 1:
            shares.append(truth[t] / F(profile.delta(_down(t))))
    return shares


@pytest.mark.parametrize(
    ("k", "n"), [(2, 1), (2, 2), (2, 3), (2, 5), (2, 8), (3, 2), (3, 5), (3, 7), (4, 5), (5, 5)]
)
@pytest.mark.parametrize("E", [F(3, 2), F(3), F(5)])
def test_krr_bound_never_below_enumeration(k, n, E):
    _check_krr(k, n, E)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "n"), [(k, n) for k in (2, 3, 4, 5) for n in range(1, 9)])
@pytest.mark.parametrize("E", [F(2), F(3), F(5), F(20)])
def test_krr_bound_never_below_enumeration_sweep(k, n, E):
    _check_krr(k, n, E)


def test_krr_bound_is_tight_where_functional_is_exact():
    """The comparison bites: 2 % less would be below the truth on these data sets."""
    assert max(_check_krr(2, 5, F(3))) > F(98, 100)
    assert max(_check_krr(3, 5, F(5))) > F(98, 100)


# Randomizers that nobody designed


def _check_random(seed: int, count: int, ns: tuple[int, ...]) -> int:
    """Own law and generic law against the truth; returns how often the own bound bites."""
    rng = random.Random(seed)
    bites = 0
    for index in range(count):
        E = rng.choice([F(3, 2), F(2), F(5)])
        shape = rng.choice([(2, 3), (3, 3), (3, 4)])
        R = random_matrix(rng, *shape, E, extremal=index % 2 == 0)
        for n in ns:
            generic = _profile(_generic(E).blanket(), n, E)
            for x0, x1 in permutations(range(len(R)), 2):
                truth = worst_delta(R, n, TS, pairs=[(x0, x1)])
                own = _profile(pair_law_of_matrix(R, x0, x1), n, E)
                for t in TS:
                    upper = own.delta(_down(t))
                    assert F(upper) >= truth[t]
                    assert F(generic.delta(_down(t))) >= truth[t]
                    bites += t > 1 and 0 < F(98, 100) * F(upper) < truth[t]
    return bites


def test_random_randomizer_bounds_never_below_enumeration():
    assert _check_random(seed=41, count=6, ns=(2, 4)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_random_randomizer_bounds_never_below_enumeration_sweep(seed):
    _check_random(seed=500 + seed, count=30, ns=(2, 3, 5))


@pytest.mark.parametrize(
    ("randomizer", "R"),
    [
        (RR(epsilon=_up(3)), krr_matrix(2, F(3))),
        (HadamardResponse(categories=3, epsilon=_up(3)), hadamard_matrix(3, F(3))),
        (OUE(categories=3, epsilon=_up(3)), unary_matrix(3, F(1, 2), F(1, 4))),
        (OneBit(epsilon=_up(3)), tuple((F(3 - x, 4), F(1 + x, 4)) for x in (F(0), F(1), F(2)))),
    ],
    ids=["rr", "hadamard", "oue", "onebit"],
)
def test_named_randomizer_bounds_never_below_enumeration(randomizer, R):
    """The law that a randomizer states of itself, against its own matrix over all data sets."""
    for n in (2, 4):
        profile = ShuffleProfile(randomizer.blanket(), n, LocalProfile(randomizer))
        truth = worst_delta(R, n, TS)
        for t in TS:
            assert F(profile.delta(_down(t))) >= truth[t]


# Attacks


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_attack_equals_enumeration_of_its_data_set(k, n):
    E = F(3)
    R = krr_matrix(k, E)
    xstar = min(2, k - 1)
    law = attack_law_of_matrix(R, 0, 1, xstar)
    profile = _profile(law, n, E, attacks=(law,))
    for t in TS:
        both = [true_delta(R, x0, x1, [xstar] * (n - 1), t) for x0, x1 in ((0, 1), (1, 0))]
        assert F(profile.bracket(_up(t)).lower) <= max(both) <= F(profile.bracket(_down(t)).upper)
        assert profile.bracket(_down(t)).upper == pytest.approx(float(max(both)), rel=LISTED)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_krr_lower_bound_never_above_enumeration(k):
    """``lower`` returns an ε at which some data set really has at least that δ."""
    E, n = F(5), 5
    own = KRR(categories=k, epsilon=_down(E))
    profile = ShuffleProfile(own.blanket(), n, LocalProfile(own), own.attack())
    R = krr_matrix(k, E)
    for delta in (0.05, 0.01, 1e-3):
        low, high = profile.lower(delta), profile.epsilon(delta)
        assert low is not None
        assert low <= high
        t = F(math.exp(low)) * (1 + F(1, 10**9))
        slack = 1 + F(1, 10**6)
        assert worst_delta(R, n, [t], pairs=[(0, 1)])[t] * slack >= F(delta)


@pytest.mark.parametrize(
    ("n", "epsilon0", "k", "epsilon"), [(1000, 8.0, 16, 7.0), (1000, 4.0, 128, 0.6)]
)
def test_attack_on_large_crowd_equals_multinomial_sum(n, epsilon0, k, epsilon):
    """The transform against a multinomial sum that shares nothing with it."""
    own = KRR(categories=k, epsilon=epsilon0)
    *_, law = own.attack()
    bracket = ShuffleProfile(law, n, LocalProfile(own)).bracket(epsilon)
    exact = attack_delta(k, epsilon0, n, epsilon)
    assert bracket.lower * (1 - 1e-8) <= exact <= bracket.upper * (1 + 1e-8)
    assert bracket.upper <= exact * 1.001


# Crowds too large to list: the transform


def _generic_by_integers(E: int, n: int, t: F) -> F:
    """The binomial sum of docs/theory/generic.md in integers, for crowds of hundreds."""
    p, q = t.numerator, t.denominator
    total = 0
    for c in range(n):
        crowd = math.comb(n - 1, c) * (E - 1) ** (n - 1 - c)
        row = 1
        before = 0
        inner = 0
        for zeros in range(c + 2):
            joined, apart = before, row
            inner += max(0, q * (E * joined + apart) - p * (joined + E * apart))
            before, row = row, row * (c - zeros) // (zeros + 1)
        total += crowd * inner
    return F(total, q * (E + 1) ** n)


def test_generic_by_integers_equals_functional():
    assert _generic_by_integers(3, 6, F(3, 2)) == functional(generic_atoms(F(3)), 6, F(3, 2))


@pytest.mark.parametrize("E", [2, 5])
@pytest.mark.parametrize("t", [F(21, 20), F(5, 4), F(7, 4)])
def test_generic_bound_of_hundreds_near_exact(E, t):
    n = 350
    exact = _generic_by_integers(E, n, t)
    profile = _profile(_generic(F(E)).blanket(), n, F(E))
    upper = F(profile.bracket(_down(t)).upper)
    assert exact <= upper <= exact * F(1001, 1000)
    assert upper * F(98, 100) < exact
    assert F(profile.bracket(_up(t)).lower) <= exact


@pytest.mark.parametrize("t", [F(11, 10), F(2)])
def test_krr_bound_of_seventy_near_exact(t):
    E, k, n = F(3), 4, 70
    exact = functional(blanket_atoms(krr_matrix(k, E), 0, 1), n, t)
    own = KRR(categories=k, epsilon=_up(E))
    bracket = ShuffleProfile(own.blanket(), n, LocalProfile(own)).bracket(_down(t))
    assert exact <= F(bracket.upper) <= exact * F(1001, 1000)


# Adaptive randomizers


def _adaptive_delta(choose, data0, data1, outputs: int, t: F) -> F:
    """δ of: permute the people, then each reports through ``choose(history)``."""

    def law(data) -> dict[tuple[int, ...], F]:
        orders = list(permutations(data))
        found: dict[tuple[int, ...], F] = {}
        for order in orders:
            for history in product(range(outputs), repeat=len(data)):
                chance = F(1, len(orders))
                for place, x in enumerate(order):
                    chance *= choose(history[:place])[x][history[place]]
                found[history] = found.get(history, F(0)) + chance
        return found

    P, Q = law(data0), law(data1)
    return sum((max(F(0), P[key] - t * Q[key]) for key in P), F(0))


def test_clones_bound_never_below_adaptive_enumeration():
    rng = random.Random(67)
    E, tight = F(4), 0
    for _ in range(25):
        chosen: dict[tuple[int, ...], Matrix] = {}

        def choose(history, chosen=chosen):
            if history not in chosen:
                high, low = E / (E + 1), 1 / (E + 1)
                yes = [rng.random() < 0.5 for _ in range(3)]
                chosen[history] = tuple((high, low) if each else (low, high) for each in yes)
            return chosen[history]

        others = [rng.randrange(3) for _ in range(2)]
        profile = _profile(clones_law(_up(E)), 3, E)
        for t in (F(1, 2), F(1), F(3, 2), F(5, 2)):
            truth = _adaptive_delta(choose, (0, *others), (1, *others), 2, t)
            assert truth <= functional(clones_atoms(E), 3, t)
            assert F(profile.delta(_down(t))) >= truth
            tight += truth > F(1, 2) * functional(clones_atoms(E), 3, t) > 0
    assert tight > 0


# Composition


def _multiset_laws(R: Matrix, x0: int, x1: int, others) -> list[tuple[F, F]]:
    """(P, Q) at every multiset, for binary outputs."""
    laws = []
    for victim in (x0, x1):
        law = [F(1)]
        for x in (victim, *others):
            law = [
                (law[j] * R[x][0] if j < len(law) else 0) + (law[j - 1] * R[x][1] if j else 0)
                for j in range(len(law) + 1)
            ]
        laws.append(law)
    return list(zip(*laws, strict=True))


def test_two_adaptive_rounds_never_above_composition():
    """The second round's crowd is chosen in view of the first; the bound composes the worst law."""
    E, n = F(3), 4
    R = krr_matrix(2, E)
    crowds = list(product((0, 1), repeat=n - 1))
    first = _multiset_laws(R, 0, 1, crowds[0])
    profile = _profile(_generic(E).blanket(), n, E)
    composed = ComposedProfile(((profile, 2),))
    for t in (F(6, 5), F(3, 2), F(5, 2), F(4)):
        truth = F(0)
        for p1, q1 in first:
            truth += max(
                sum(max(F(0), p1 * p2 - t * q1 * q2) for p2, q2 in _multiset_laws(R, 0, 1, crowd))
                for crowd in crowds
            )
        alone = functional(generic_atoms(E), n, t)
        assert F(composed.delta(_down(t))) >= truth > alone
        assert composed.delta(_down(t)) <= 1.35 * float(truth)


def test_two_rounds_of_functional_are_tight():
    """Composing the pair of the functional by hand: within a percent, and never below."""
    E, n = F(2), 3
    law = krr_matrix(2, E)
    pair = _pair_of_functional(blanket_atoms(law, 0, 1), n)
    composed = ComposedProfile(((_profile(pair_law_of_matrix(law, 0, 1), n, E), 2),))
    for t in (F(11, 10), F(3, 2), F(2)):
        exact = sum(
            (max(F(0), p1 * p2 - t * q1 * q2) for (p1, q1), (p2, q2) in product(pair, repeat=2)),
            F(0),
        )
        upper = F(composed.delta(_down(t)))
        assert exact <= upper <= exact * F(101, 100)
        assert upper * F(98, 100) < exact


def _pair_of_functional(atoms, n: int) -> list[tuple[F, F]]:
    """The genuine pair behind the functional: densities (Σa/n, Σb/n) at n draws, in order."""
    void = 1 - sum(mass for _, _, mass in atoms)
    symbols = [*atoms, (F(0), F(0), void)]
    pair = []
    for draws in product(symbols, repeat=n):
        chance = math.prod((mass for _, _, mass in draws), start=F(1))
        first, second = sum(a for a, _, _ in draws), sum(b for _, b, _ in draws)
        pair.append((chance * first / n, chance * second / n))
    return pair


# The local curve


def test_bounds_never_above_local_curve():
    E = F(3)
    for n in (1, 2, 50):
        profile = _profile(clones_law(_up(E)), n, E)
        for t in TS:
            local = (max(F(0), E - t) + max(F(0), 1 - t * E)) / (E + 1)
            assert profile.delta(math.log(t)) <= float(local) * (1 + 1e-9) + 1e-15
        assert profile.epsilon(1e-6) <= _up(E)
