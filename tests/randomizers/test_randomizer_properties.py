"""Properties of randomizers that protocols rely on, for built-in and external ones."""

import math

import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.privacy.mechanisms.shuffle import any_randomizer
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.run import guarantees
from incrowd.protocols.token_walk import TokenWalk
from incrowd.randomizers import (
    KRR,
    OLH,
    OUE,
    RR,
    SUE,
    Gaussian,
    GaussianVector,
    Generic,
    HadamardResponse,
    Laplace,
    OneBit,
    PrivUnit,
    Randomizer,
    Redirect,
    Ternary,
)
from incrowd.randomizers.noise import gaussian_delta
from incrowd.randomizers.registry import RANDOMIZERS
from incrowd.report.format import percent, up
from incrowd.tasks import Mean, Release, natural_task

DRAWABLE = [
    RR(epsilon=1.0),
    KRR(epsilon=1.0, categories=4),
    OUE(epsilon=1.0, categories=4),
    SUE(epsilon=1.0, categories=4),
    HadamardResponse(epsilon=1.0, categories=4),
    OLH(epsilon=1.0, categories=4),
    Laplace(epsilon=1.0),
    Gaussian(epsilon=1.0, delta=1e-6),
    OneBit(epsilon=1.0),
    Ternary(epsilon=1.0),
    PrivUnit(epsilon=1.0, dimension=3),
    GaussianVector(epsilon=1.0, delta=1e-6, dimension=3),
    Redirect(targets=4, redirect_probability=0.3),
]
everyone = pytest.mark.parametrize("randomizer", DRAWABLE, ids=lambda each: each.kind)


def values_for(randomizer, people=6):
    if randomizer.domain == "vector":
        return np.eye(3)[np.arange(people) % 3]
    if randomizer.domain == "interval":
        return np.linspace(0, 1, people)
    return np.arange(people) % 2


@everyone
def test_drawable_randomizer_draws(randomizer):
    assert randomizer.drawable
    assert len(randomizer.randomize(values_for(randomizer), np.random.default_rng(1))) == 6


def test_generic_randomizer_is_not_drawable_and_has_no_expected_error():
    assert not Generic.drawable
    assert expected_error(Generic(epsilon=1.0), 100) is None


@everyone
def test_summable_randomizer_estimates_from_tally_and_others_refuse(randomizer):
    reports = randomizer.randomize(values_for(randomizer), np.random.default_rng(1))
    if not randomizer.summable:
        with pytest.raises(InvalidParameter, match="cannot be added up"):
            randomizer.tally(reports)
        return
    found = randomizer.from_tally(randomizer.tally(reports), 6, 6)
    assert np.allclose(found.value, randomizer.estimate(reports).value)


@pytest.mark.parametrize("epsilon", [1.0, 0.123456, 2.00001, 1e-7, 12.345678])
def test_treatment_rounds_epsilon_up(epsilon):
    assert KRR(epsilon=epsilon, categories=4).treatment() == f"ε0 = {up(epsilon)} each"


@pytest.mark.parametrize("sampling", [1e-4, 1 / 3, 0.25, 1.0])
def test_treatment_of_redirect_states_sampling(sampling):
    stated = Redirect(targets=4, redirect_probability=sampling).treatment()
    assert stated.startswith(f"{percent(sampling)} of messages go to a compute node")
    assert (
        Redirect(targets=4, redirect_probability=0).treatment()
        == "every message goes where it belongs"
    )


@everyone
def test_report_with_domain_is_valid_value(randomizer):
    """A second randomizer takes the reports of the first."""
    if randomizer.report_domain is None:
        return
    rng = np.random.default_rng(1)
    assert randomizer.report_domain == randomizer.domain
    assert len(randomizer.randomize(randomizer.randomize(values_for(randomizer), rng), rng)) == 6


@everyone
def test_additive_noise_is_independent_of_value(randomizer):
    if not randomizer.additive:
        with pytest.raises(NotImplementedError):
            randomizer.randomize_scaled(values_for(randomizer), 1.0, np.random.default_rng(1))
        return
    values = np.round(values_for(randomizer) * 2**20) / 2**20
    seeds = [np.random.default_rng(1) for _ in range(2)]
    one = randomizer.randomize(values, seeds[0]) - values
    other = randomizer.randomize(values[::-1], seeds[1]) - values[::-1]
    assert np.allclose(one, other, atol=2.0**-19)


@everyone
def test_scaled_noise_has_scaled_standard_deviation(randomizer):
    if not randomizer.additive:
        return
    values = np.repeat(values_for(randomizer)[:1], 4000, axis=0)
    rng = np.random.default_rng(1)
    whole, half = (
        np.std(randomizer.randomize_scaled(values, scale, rng) - values) for scale in (1.0, 0.5)
    )
    assert half == pytest.approx(whole / 2, rel=0.1)
    variance = float(np.mean(randomizer.from_tally(values.sum(axis=0), 1, 1).variance))
    assert whole == pytest.approx(math.sqrt(variance), rel=0.1)
    assert np.allclose(randomizer.randomize_scaled(values, 0.0, rng), values, atol=2.0**-20)


@everyone
def test_normal_shift_determines_local_curve(randomizer):
    shift = randomizer.normal_shift
    if shift is None:
        return
    assert randomizer.additive
    for epsilon in (-1.0, 0.0, 0.5, 2.0):
        assert randomizer.local_delta(epsilon) == pytest.approx(gaussian_delta(epsilon, 1 / shift))


@everyone
def test_uniform_blanket_has_law_of_randomized_response(randomizer):
    """The blanket's mass is what is drawn uniformly: each outcome is as likely in it."""
    if not randomizer.uniform_blanket:
        return
    size = getattr(randomizer, "categories", getattr(randomizer, "targets", 0))
    values = np.zeros(200_000, int)
    reports = randomizer.randomize(values, np.random.default_rng(1))
    shares = np.bincount(reports, minlength=size) / len(values)
    assert np.allclose(shares[1:], randomizer.blanket().gamma / size, atol=0.005)


def test_reports_missing_holds_for_ternary_alone():
    assert [each.kind for each in DRAWABLE if each.reports_missing] == ["ternary"]
    assert natural_task(Ternary(epsilon=1.0)) == Mean(bounds=(0, 1))
    assert natural_task(OneBit(epsilon=1.0)) == Mean(bounds=(0, 1), complete=True)


def test_pure_of_generic_drops_delta():
    impure = Generic(epsilon=1.0, delta=1e-6)
    assert impure.pure() == Generic(epsilon=1.0)
    assert Generic(epsilon=1.0).pure() is None
    assert Gaussian(epsilon=1.0, delta=1e-6).pure() is None
    assert any_randomizer(impure) == impure
    assert any_randomizer(RR(epsilon=1.0)) == Generic(epsilon=1.0)


def delegated(name):
    return lambda self, *given: getattr(self.inner, name)(*given)


class Outside(Randomizer, frozen=True):
    """A randomizer whose class is no relative of the one that it behaves like."""

    randomize = delegated("randomize")
    randomize_exactly = delegated("randomize_exactly")
    randomize_scaled = delegated("randomize_scaled")
    estimate = delegated("estimate")
    tally = delegated("tally")
    from_tally = delegated("from_tally")
    local_delta = delegated("local_delta")
    blanket = delegated("blanket")
    attack = delegated("attack")
    report_bytes = property(lambda self: self.inner.report_bytes)
    normal_shift = property(lambda self: self.inner.normal_shift)


class Noise(Outside, frozen=True, tag="outside-noise"):
    domain = "interval"
    summable = additive = True
    inner = property(lambda self: Gaussian(epsilon=self.epsilon, delta=1e-6))


class Response(Outside, frozen=True, tag="outside-response"):
    domain = report_domain = "category"
    summable = uniform_blanket = True
    categories = 3
    inner = property(lambda self: KRR(epsilon=self.epsilon, categories=3))


PAIRS = [
    (Gaussian(epsilon=1.0, delta=1e-6), Noise(epsilon=1.0)),
    (KRR(epsilon=1.0, categories=3), Response(epsilon=1.0)),
]
PLACES = [{"steps": 40}, {"topology": "ring", "laps": 2}]


@pytest.mark.parametrize(("own", "outside"), PAIRS, ids=["noise", "response"])
@pytest.mark.parametrize("place", PLACES, ids=["complete", "ring"])
def test_token_walk_of_external_randomizer_equals_built_in(own, outside, place):
    walks = [TokenWalk(each, n=12, **place) for each in (own, outside)]
    values = values_for(own, 12)
    one, other = (each.simulate(values, seed=3).result.value for each in walks)
    assert np.array_equal(one, other)
    one, other = ([x.epsilon(1e-6) for x in guarantees(each)] for each in walks)
    assert one == other
    assert walks[0].cost() == walks[1].cost()


def test_split_noise_of_external_randomizer_is_accounted_for():
    walks = [
        TokenWalk(each, n=12, topology="ring", laps=2, split_noise=True)
        for each in (Gaussian(epsilon=1.0, delta=1e-6), Noise(epsilon=1.0))
    ]
    one, other = (each.guarantee().epsilon(1e-6) for each in walks)
    assert one == other


def test_release_accepts_external_response():
    Release(categories=("a", "b", "c"), complete=True).require(Response(epsilon=1.0))


def test_release_refuses_non_category_reports():
    with pytest.raises(InvalidParameter, match="needs reports that are categories"):
        Release(categories=("a", "b"), complete=True).require(OUE(epsilon=1.0, categories=2))


@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_plugin_declaration_agrees_with_class(kind):
    plugin, made = RANDOMIZERS.find(kind), RANDOMIZERS.load(kind)
    assert (plugin.domain, plugin.drawable) == (made.domain, made.drawable)
    assert made.__struct_config__.tag == kind
