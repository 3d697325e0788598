"""The theorems of docs/theory, checked exactly on small cases, and the enumeration itself."""

import random
from fractions import Fraction as F
from itertools import permutations, product

import pytest
from enumeration import (
    attack_atoms,
    blanket_atoms,
    clones_atoms,
    functional,
    generic_atoms,
    generic_by_binomials,
    hadamard_matrix,
    krr_matrix,
    random_matrix,
    ratio,
    true_delta,
    unary_matrix,
    worst_delta,
)

TS = (F(1, 4), F(2, 3), F(1), F(6, 5), F(3, 2), F(5, 2))


def _matrices(count: int, seed: int):
    rng = random.Random(seed)
    for index in range(count):
        E = rng.choice([F(3, 2), F(2), F(3), F(5)])
        shape = rng.choice([(2, 3), (3, 3), (3, 4), (4, 3)])
        yield E, random_matrix(rng, *shape, E, extremal=index % 2 == 0)


def test_true_delta_equals_sum_over_ordered_outcomes():
    """Multisets from the definition: all ordered outcomes, then their order is forgotten."""
    R = random_matrix(random.Random(3), 3, 3, F(3), extremal=False)
    t, others = F(9, 8), (1, 2, 2)
    laws = []
    for victim in (0, 1):
        law: dict[tuple[int, ...], F] = {}
        for outcome in product(range(len(R[0])), repeat=4):
            chance = F(1)
            for x, y in zip((victim, *others), outcome, strict=True):
                chance *= R[x][y]
            key = tuple(sorted(outcome))
            law[key] = law.get(key, F(0)) + chance
        laws.append(law)
    P, Q = laws
    assert sum(P.values()) == sum(Q.values()) == 1
    expected = sum(max(F(0), P[key] - t * Q[key]) for key in P)
    assert true_delta(R, 0, 1, others, t) == expected > 0


def test_worst_delta_equals_maximum_over_data_sets():
    R = random_matrix(random.Random(5), 3, 3, F(3), extremal=True)
    t = F(3, 2)
    by_hand = max(
        true_delta(R, x0, x1, others, t)
        for x0, x1 in permutations(range(3), 2)
        for others in product(range(3), repeat=2)
    )
    assert worst_delta(R, 3, [t])[t] == by_hand > 0


def test_worst_delta_of_one_person_equals_local_curve():
    E = F(3)
    for t in TS:
        truth = worst_delta(krr_matrix(2, E), 1, [t])[t]
        assert truth == (max(F(0), E - t) + max(F(0), 1 - t * E)) / (E + 1)


@pytest.mark.parametrize("t", TS)
def test_attack_functional_equals_true_delta(t):
    """When all others hold one value, the functional under their law is the true delta."""
    for E, R in _matrices(12, seed=11):
        assert ratio(R) <= E
        for n in (1, 2, 4):
            for x0, x1, xstar in ((0, 1, 0), (0, 1, 1), (1, 0, len(R) - 1)):
                truth = true_delta(R, x0, x1, [xstar] * (n - 1), t)
                assert functional(attack_atoms(R, x0, x1, xstar), n, t) == truth


@pytest.mark.parametrize(("k", "n"), [(2, 8), (3, 6), (4, 5), (5, 4)])
@pytest.mark.parametrize("E", [F(2), F(5)])
def test_krr_blanket_never_below_enumeration(k, n, E):
    R = krr_matrix(k, E)
    truth = worst_delta(R, n, TS, pairs=[(0, 1)])
    for t in TS:
        bound = functional(blanket_atoms(R, 0, 1), n, t)
        assert truth[t] <= bound <= functional(generic_atoms(E), n, t)
        assert bound <= functional(clones_atoms(E), n, t)


def test_random_randomizer_blanket_and_generic_never_below_enumeration():
    tight = 0
    for E, R in _matrices(30, seed=17):
        for n in (2, 4):
            truth = worst_delta(R, n, TS)
            for t in TS:
                generic = functional(generic_atoms(E), n, t)
                blanket = max(
                    functional(blanket_atoms(R, x0, x1), n, t)
                    for x0, x1 in permutations(range(len(R)), 2)
                )
                assert truth[t] <= blanket <= generic <= functional(clones_atoms(E), n, t)
                tight += truth[t] > F(98, 100) * blanket > 0 and t > 1
    assert tight > 0  # a bound lowered by 2 % would have been caught


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_generic_never_below_enumeration_sweep(seed):
    for E, R in _matrices(60, seed=1000 + seed):
        for n in (2, 3, 5):
            truth = worst_delta(R, n, TS)
            for t in TS:
                assert truth[t] <= functional(generic_atoms(E), n, t)


@pytest.mark.parametrize("E", [F(3, 2), F(4)])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_generic_functional_equals_binomial_pair(E, n):
    for t in TS:
        sharp = generic_by_binomials(E, n, t, clone=2 / (E + 1))
        assert functional(generic_atoms(E), n, t) == sharp
        published = generic_by_binomials(E, n, t, clone=1 / E)
        assert functional(clones_atoms(E), n, t) == published >= sharp


@pytest.mark.parametrize(("E", "n", "t"), [(F(2), 5, F(3, 2)), (F(5), 8, F(3))])
def test_generic_bound_is_attained_by_binary_response(E, n, t):
    """Binary randomized response reaches the bound here; a clone probability 2 % larger fails."""
    truth = worst_delta(krr_matrix(2, E), n, [t])[t]
    clone = 2 / (E + 1)
    assert truth == generic_by_binomials(E, n, t, clone)
    assert truth > generic_by_binomials(E, n, t, clone * F(102, 100))


def test_functional_of_reversed_pair_follows_symmetry():
    """H_t(P‖Q) = 1 − t + t·H_{1/t}(Q‖P): negative epsilons follow from the other direction."""
    R = random_matrix(random.Random(23), 3, 4, F(3), extremal=True)
    atoms, mirrored = blanket_atoms(R, 0, 1), blanket_atoms(R, 1, 0)
    for t in TS:
        assert functional(atoms, 4, t) == 1 - t + t * functional(mirrored, 4, 1 / t)


@pytest.mark.parametrize(
    "R", [krr_matrix(4, F(3)), hadamard_matrix(3, F(3)), unary_matrix(3, F(1, 2), F(1, 5))]
)
def test_symmetric_randomizer_pairs_have_equal_law(R):
    first = sorted(blanket_atoms(R, 0, 1))
    for x0, x1 in permutations(range(len(R)), 2):
        assert sorted(blanket_atoms(R, x0, x1)) == first


def test_hadamard_law_under_constant_blanket_has_four_equal_atoms():
    """A constant blanket gives the four atoms of equal mass; the envelope gives a smaller bound."""
    E, n, t = F(3), 4, F(3, 2)
    R = hadamard_matrix(3, E)
    quarter = 1 / (2 * (E + 1))
    four = tuple((a, b, quarter) for a in (E, F(1)) for b in (E, F(1)))
    assert functional(blanket_atoms(R, 0, 1), n, t) <= functional(four, n, t)
    assert worst_delta(R, n, [t], pairs=[(0, 1)])[t] <= functional(four, n, t)
    assert functional(four, n, t) <= functional(generic_atoms(E), n, t)
