"""Composition: exact small cases, reference values, interoperation, refusals."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.privacy import (
    ComposedProfile,
    Guarantee,
    LocalProfile,
    ShuffleProfile,
    connect_the_dots,
)
from incrowd.privacy.pure import PureProfile
from incrowd.randomizers import KRR, RR, Gaussian, Generic


def shuffled(randomizer, n):
    return ShuffleProfile(randomizer.blanket(), n, LocalProfile(randomizer), randomizer.attack())


def discrete_delta(losses, mass, infinite, epsilon):
    return float(mass @ np.maximum(-np.expm1(epsilon - losses), 0)) + infinite


@pytest.mark.parametrize("randomizer", [RR(epsilon=1.0), Gaussian(epsilon=1.0, delta=1e-5)])
def test_connect_the_dots_never_below_curve(randomizer):
    curve = LocalProfile(randomizer).delta
    found = connect_the_dots(curve, 0.05)
    losses = 0.05 * (found.first + np.arange(found.mass.size))
    assert found.mass.sum() + found.infinite == pytest.approx(1, abs=1e-9)
    for epsilon in np.linspace(-2, 2, 201):
        joined = discrete_delta(losses, found.mass, found.infinite, epsilon)
        assert joined >= curve(epsilon) - 1e-12
    for epsilon in losses[::3]:
        joined = discrete_delta(losses, found.mass, found.infinite, epsilon)
        assert joined == pytest.approx(curve(epsilon), abs=1e-12)


def test_composed_pure_losses_are_exact_and_rounded_once():
    rng = np.random.default_rng(7)
    pairs = [(4.239404733118142, 0.3336231177645545), *rng.lognormal(0, 2, (2000, 2)).tolist()]
    for losses in pairs:
        total = ComposedProfile(tuple((PureProfile(each), 3) for each in losses)).greatest_loss
        exact = 3 * sum(map(Fraction, losses))
        assert Fraction(math.nextafter(total, 0)) < exact <= Fraction(total)
    unbounded = LocalProfile(Gaussian(epsilon=1.0, delta=1e-5))
    assert ComposedProfile(((unbounded, 2),)).greatest_loss == math.inf


@pytest.mark.parametrize("rounds", [1, 2, 4, 7])
def test_composed_randomized_response_is_exact_on_grid(rounds):
    """Losses of binary RR sit at ±ε0: a grid through them composes without any error."""
    epsilon0 = 0.8
    profile = ComposedProfile(((LocalProfile(RR(epsilon=epsilon0)), rounds),))
    keep = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    for epsilon in (0.0, 0.4, 1.1, 2.5):
        truth = sum(
            max(p - math.exp(epsilon) * q, 0)
            for p, q in (
                (
                    math.prod(keep if heads else 1 - keep for heads in flips),
                    math.prod(1 - keep if heads else keep for heads in flips),
                )
                for flips in product((True, False), repeat=rounds)
            )
        )
        found = profile.delta(epsilon)
        assert truth <= found <= truth * 1.01 + 1e-9


def exact_pair(n, epsilon0):
    """Binary RR's blanket pair as explicit distributions over (ones, clones)."""
    E = math.exp(epsilon0)
    clone = 2 / (E + 1)
    P, Q = {}, {}
    for c in range(n):
        weight = math.comb(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c)
        for a in range(c + 1):
            chance = weight * math.comb(c, a) / 2**c
            for table, high in ((P, E / (E + 1)), (Q, 1 / (E + 1))):
                table[a + 1, c] = table.get((a + 1, c), 0) + chance * high
                table[a, c] = table.get((a, c), 0) + chance * (1 - high)
    return P, Q


@pytest.mark.parametrize(("n", "epsilon0", "rounds"), [(3, 1.0, 2), (4, 2.0, 3), (6, 0.5, 2)])
def test_composition_never_below_enumeration(n, epsilon0, rounds):
    P, Q = exact_pair(n, epsilon0)
    profile = ComposedProfile(((shuffled(Generic(epsilon=epsilon0), n), rounds),))
    for epsilon in (0.05, 0.3, 0.8):
        truth = math.fsum(
            max(
                math.prod(P[y] for y in outcome)
                - math.exp(epsilon) * math.prod(Q[y] for y in outcome),
                0,
            )
            for outcome in product(P, repeat=rounds)
        )
        found = profile.delta(epsilon)
        assert truth <= found <= 1.01 * truth
        assert 0.98 * found < truth, "lowered by 2 %, the bound would fall below the truth"


def attack_pair(law, n):
    """The shuffled output when all others follow the blanket of an attack law: multisets."""
    P, Q = {}, {}
    for counts in product(range(n + 1), repeat=law.mass.size):
        if sum(counts) == n:
            chance = math.factorial(n) * math.prod(
                m**c / math.factorial(c) for m, c in zip(law.mass, counts, strict=True)
            )
            P[counts] = chance * float(law.a @ counts) / n
            Q[counts] = chance * float(law.b @ counts) / n
    return P, Q


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("forth", [True, False])
@pytest.mark.parametrize("randomizer", [RR(epsilon=1.0), KRR(categories=3, epsilon=1.5)])
def test_composed_attack_never_above_enumeration(randomizer, rounds, forth):
    """Losses from below, composed, against all outcomes of all rounds of that very attack."""
    n, law = 4, randomizer.attack()[0]
    P, Q = attack_pair(law, n) if forth else reversed(attack_pair(law, n))
    profile = ShuffleProfile(
        randomizer.blanket(), n, LocalProfile(randomizer), (law if forth else law.swapped(),)
    )
    assert len(profile.attained()) == 2
    for losses in profile.attained():
        many = losses.to_dp_accounting().self_compose(rounds)
        closest = 0.0
        for epsilon in (0.1, 0.5, 1.0):
            both_ways = [
                math.fsum(
                    max(
                        math.prod(A[y] for y in seen)
                        - math.exp(epsilon) * math.prod(B[y] for y in seen),
                        0,
                    )
                    for seen in product(P, repeat=rounds)
                )
                for A, B in ((P, Q), (Q, P))
            ]
            found = many.get_delta_for_epsilon(epsilon)
            assert found <= max(both_ways)
            closest = max(closest, found / max(both_ways))
        assert closest > 0.5
    lower, upper = (
        f(1e-3)
        for f in (
            ComposedProfile(((profile, rounds),)).lower,
            ComposedProfile(((profile, rounds),)).epsilon,
        )
    )
    assert profile.lower(1e-3) < lower <= upper


def test_composed_attack_stays_close_to_bound():
    profile = shuffled(KRR(categories=16, epsilon=1.0), 10**4)
    for rounds in (10, 1000):
        composed = ComposedProfile(((profile, rounds),))
        lower, upper = composed.lower(1e-6), composed.epsilon(1e-6)
        assert 0.99 * upper <= lower <= upper


@pytest.mark.parametrize(
    ("n", "epsilon0", "rounds", "most"),
    [(10**3, 1, 1000, 6.3781), (10**4, 1, 10, 0.14852), (10**4, 1, 1000, 1.7635),
     (10**4, 4, 1000, 19.875)],
)  # fmt: skip
def test_composed_epsilon_near_reference_values(n, epsilon0, rounds, most):
    """At or below what a fine hand-made grid gives, and above one round composed optimistically."""
    found = ComposedProfile(((shuffled(Generic(epsilon=epsilon0), n), rounds),)).epsilon(1e-6)
    assert 0.99 * most <= found <= most


def test_composed_small_crowd_never_above_local_bound():
    randomizer = RR(epsilon=6.0)
    local = ComposedProfile(((LocalProfile(randomizer), 3),)).epsilon(1e-9)
    assert ComposedProfile(((shuffled(randomizer, 2), 3),)).epsilon(1e-9) <= local * (1 + 1e-9)


def test_composition_of_different_rounds_lies_between():
    small, large = shuffled(Generic(epsilon=1.0), 1000), shuffled(Generic(epsilon=1.0), 5000)
    mixed = ComposedProfile(((small, 5), (large, 5))).epsilon(1e-6)
    assert ComposedProfile(((large, 10),)).epsilon(1e-6) < mixed
    assert mixed < ComposedProfile(((small, 10),)).epsilon(1e-6)


def test_losses_convert_to_dp_accounting_distribution():
    from dp_accounting.pld import privacy_loss_distribution

    profile = shuffled(KRR(categories=8, epsilon=1.0), 1000)
    ours = profile.losses(1e-3).to_dp_accounting()
    noise = privacy_loss_distribution.from_gaussian_mechanism(
        3.0, value_discretization_interval=1e-3
    )
    both = ours.compose(noise)
    assert both.get_epsilon_for_delta(1e-6) > noise.get_epsilon_for_delta(1e-6)
    assert ours.get_epsilon_for_delta(1e-6) == pytest.approx(profile.epsilon(1e-6), rel=1e-2)


def test_compose_refuses_guarantees_of_different_views():
    profile = shuffled(Generic(epsilon=1.0), 1000)
    one = Guarantee(profile, frozenset({"curator"}), "blanket", ("honest shuffler",))
    other = Guarantee(profile, frozenset({"curator", "shuffler"}), "local", ())
    assert one.compose(one).epsilon(1e-6) > one.epsilon(1e-6)
    assert one.compose(one).assumptions == ("honest shuffler",)
    with pytest.raises(InvalidParameter, match="different views"):
        one.compose(other)


def test_composition_keeps_mass_at_greatest_loss():
    """Two nearly equal randomizers: the last grid point falls just short of the greatest loss."""
    nearly = 1 - 0.9e-9
    both = ComposedProfile(
        ((LocalProfile(Generic(epsilon=1.0)), 1), (LocalProfile(Generic(epsilon=nearly)), 1))
    )
    epsilon = 2 - 1.2e-9
    (e1, e2) = (math.exp(1.0), math.exp(nearly))
    truth = (e1 * e2 - math.exp(epsilon)) / ((e1 + 1) * (e2 + 1))
    assert 1e-10 < truth <= both.delta(epsilon)


@pytest.mark.parametrize("n", [3000, 10**5])
def test_composition_of_unbounded_losses_is_finite(n):
    composed = ComposedProfile(((shuffled(Gaussian(epsilon=1.0, delta=1e-6), n), 2),))
    assert composed.lower(1e-5) < composed.epsilon(1e-5) < 0.1


def test_composition_flattens_nested_parts():
    profile = shuffled(Generic(epsilon=1.0), 1000)
    ten = ComposedProfile(((profile, 10),))
    twenty = ComposedProfile(((ten, 1), (ten, 1)))
    assert twenty.parts == ((profile, 20),)


def test_composition_of_huge_crowd_has_epsilon_zero():
    composed = ComposedProfile(((shuffled(KRR(categories=4, epsilon=1.0), 10**10), 2),))
    assert composed.epsilon(1e-5) == 0


@pytest.mark.parametrize("rounds", [2, 10, 100])
def test_composed_local_lower_bound_is_nearly_exact(rounds):
    composed = ComposedProfile(((LocalProfile(RR(epsilon=1.0)), rounds),))
    lower, upper = composed.lower(1e-6), composed.epsilon(1e-6)
    assert 0.999 * upper <= lower <= upper


@pytest.mark.parametrize("rounds", [140, 142, 144, 146, 148, 150, 400])
def test_composition_beyond_exp_range_brackets_truth(rounds):
    """Losses above 700 leave e^−loss to subnormal numbers, and then to zero."""
    delta = Fraction(1, 1000)
    profile = ComposedProfile(((LocalProfile(RR(epsilon=5.0)), rounds),))
    with mpmath.workdps(50):
        keep = mpmath.exp(5) / (1 + mpmath.exp(5))
        chance = [mpmath.binomial(rounds, k) * keep ** (rounds - k) * (1 - keep) ** k
                  for k in range(rounds // 2)]  # fmt: skip

        def truth(epsilon):
            losses = (5 * (rounds - 2 * k) for k in range(rounds // 2))
            return sum(p * -mpmath.expm1(min(epsilon - loss, 0))
                       for p, loss in zip(chance, losses, strict=True))  # fmt: skip

        low, high = profile.lower(float(delta)), profile.epsilon(float(delta))
        assert low is not None
        assert truth(mpmath.mpf(low)) >= delta.numerator / mpmath.mpf(delta.denominator)
        assert truth(mpmath.mpf(high)) <= delta.numerator / mpmath.mpf(delta.denominator)
    assert high - low < 1e-5 * high
