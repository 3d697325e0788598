"""What every randomizer guarantees, checked on each of them: one suite, one case per kind."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

import incrowd.randomizers as randomizers
from incrowd.errors import (
    EmptyData,
    InvalidDelta,
    InvalidEpsilon,
    InvalidParameter,
    NotANumber,
    UnknownCategory,
)
from incrowd.randomizers import (
    KRR,
    OLH,
    OUE,
    RANDOMIZERS,
    RR,
    SUE,
    Channel,
    Estimate,
    Gaussian,
    Generic,
    HadamardResponse,
    Hierarchical,
    Laplace,
    OneBit,
    PairLaw,
    PrivUnit,
    Randomizer,
    Ternary,
)

CATEGORICAL: list[Randomizer] = [
    RR(epsilon=1.0),
    KRR(epsilon=1.0, categories=2),
    KRR(epsilon=0.5, categories=6),
    KRR(epsilon=3.0, categories=300),
    OUE(epsilon=1.0, categories=11),
    OUE(epsilon=2.0, categories=16),
    SUE(epsilon=1.0, categories=5),
    HadamardResponse(epsilon=1.0, categories=7),
    HadamardResponse(epsilon=2.5, categories=8),
    OLH(epsilon=1.0, categories=9),
    OLH(epsilon=2.0, categories=20),
    Hierarchical(epsilon=1.0, categories=21),
    Hierarchical(epsilon=3.0, categories=30, branching=3),
]
INTERVAL: list[Randomizer] = [
    OneBit(epsilon=1.0),
    Ternary(epsilon=1.0),
    Ternary(epsilon=3.0),
    Laplace(epsilon=1.0),
    Laplace(epsilon=4.0),
    Gaussian(epsilon=1.0, delta=1e-5),
]
VECTOR: list[Randomizer] = [
    PrivUnit(epsilon=1.0, dimension=2),
    PrivUnit(epsilon=4.0, dimension=3),
    PrivUnit(epsilon=2.0, dimension=20),
]
CONCRETE = CATEGORICAL + INTERVAL + VECTOR
DERIVED: list[Randomizer] = [
    Channel(((0.7, 0.2, 0.1), (0.25, 0.5, 0.25), (0.1, 0.3, 0.6))),
    Channel(((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4))),
]
"""Their ε0 follows from other fields, and no law of a pair need be symmetric."""
EVERY = [Generic(epsilon=1.0), *CONCRETE]


def name(randomizer: Randomizer) -> str:
    return "-".join(str(value) for value in msgspec.to_builtins(randomizer).values())


def people(randomizer: Randomizer, n: int, rng: np.random.Generator) -> np.ndarray:
    """Uneven data, so that a mistake in debiasing shows in every coordinate."""
    if randomizer.domain == "category":
        k = randomizer.categories  # type: ignore[attr-defined]
        return np.minimum(rng.geometric(0.35, n) - 1, k - 1)
    if randomizer.domain == "interval":
        return np.full(n, 0.3)
    vectors = rng.standard_normal((n, randomizer.dimension))  # type: ignore[attr-defined]
    vectors[:, 0] += 2
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("randomizer", CONCRETE + DERIVED, ids=name)
class TestEstimates:
    def test_estimate_is_unbiased_with_stated_variance(self, randomizer, rng):
        values, runs = people(randomizer, 400, rng), 400
        estimates = [randomizer.estimate(randomizer.randomize(values, rng)) for _ in range(runs)]
        found = np.array([each.value for each in estimates])
        stated = np.mean([each.variance for each in estimates], axis=0)
        z = (found.mean(axis=0) - randomizer.estimand(values)) / np.sqrt(stated / runs)
        assert np.abs(z).max() < 4.5
        ratio = found.var(axis=0, ddof=1) / stated
        # a chi-square with 399 degrees of freedom over 399 has standard deviation 0.071
        assert np.abs(ratio - 1).max() < 0.35
        assert abs(np.mean(ratio) - 1) < 0.3 / math.sqrt(np.size(ratio)) + 0.02

    def test_randomize_repeats_with_equal_generator(self, randomizer, rng):
        values = people(randomizer, 100, rng)
        first, second = (randomizer.randomize(values, np.random.default_rng(5)) for _ in range(2))
        other = randomizer.randomize(values, np.random.default_rng(6))
        assert np.array_equal(first, second)
        assert not np.array_equal(first, other)

    def test_randomize_of_empty_values_returns_empty_reports(self, randomizer, rng):
        values = people(randomizer, 3, rng)
        none = randomizer.randomize(values[:0], rng)
        some = randomizer.randomize(values, rng)
        assert none.shape == (0, *some.shape[1:])
        assert none.dtype == some.dtype
        assert randomizer.randomize(np.array([]), rng).shape == none.shape
        with pytest.raises(EmptyData):
            randomizer.estimate(none)

    def test_estimate_from_single_report_is_finite(self, randomizer, rng):
        estimate = randomizer.estimate(randomizer.randomize(people(randomizer, 1, rng), rng))
        assert np.all(np.isfinite(estimate.value))
        assert np.all(estimate.variance >= 0)
        assert estimate.reports == 1

    def test_report_size_equals_report_bytes(self, randomizer, rng):
        reports = randomizer.randomize(people(randomizer, 4, rng), rng)
        assert reports.nbytes == 4 * randomizer.report_bytes

    def test_randomize_leaves_values_unchanged(self, randomizer, rng):
        values = people(randomizer, 50, rng)
        before = values.copy()
        randomizer.randomize(values, rng)
        assert np.array_equal(before, values)

    def test_estimate_refuses_reports_of_wrong_shape(self, randomizer):
        with pytest.raises(InvalidParameter, match="shape"):
            randomizer.estimate(np.zeros((2, 3, 4), np.uint8))


@pytest.mark.parametrize("randomizer", EVERY, ids=name)
class TestDescription:
    def test_randomizer_survives_survey_table_round_trip(self, randomizer):
        table = msgspec.to_builtins(randomizer)
        assert table["kind"] == randomizer.kind
        kind = RANDOMIZERS.load(table["kind"])
        assert kind is type(randomizer)
        assert msgspec.convert(table, kind) == randomizer
        assert msgspec.json.decode(msgspec.json.encode(randomizer), type=kind) == randomizer

    def test_randomizer_is_frozen_and_hashable(self, randomizer):
        with pytest.raises(AttributeError):
            randomizer.epsilon = 2.0
        assert hash(randomizer) == hash(msgspec.structs.replace(randomizer))

    def test_blanket_and_attacks_are_normalised_laws(self, randomizer):
        blanket, attacks = randomizer.blanket(), randomizer.attack()
        assert blanket.symmetric
        assert blanket.gamma <= 1
        assert len(attacks) >= 1
        for law in (blanket, *attacks):
            assert abs(law.a @ law.mass - 1) < 1e-12
            assert abs(law.b @ law.mass - 1) < 1e-12
        for law in attacks:
            assert abs(law.mass.sum() - 1) < 1e-12
            assert law.escaped == 0

    def test_blanket_ratios_lie_between_one_and_e_epsilon(self, randomizer):
        law, top = randomizer.blanket(), math.exp(randomizer.epsilon) * (1 + 1e-14)
        assert min(law.a.min(), law.b.min()) >= 1 - 1e-14
        if randomizer.delta == 0:
            assert max(law.a.max(), law.b.max()) <= top

    def test_blanket_bound_never_below_attack(self, randomizer):
        """The functional for two people, by enumeration of pairs of atoms."""
        for t in (0.5, 1.0, 1.3, math.exp(randomizer.epsilon / 2)):
            above = functional_of_two(randomizer.blanket(), t)
            for law in randomizer.attack():
                assert functional_of_two(law, t) <= above + 1e-12

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1000.0])
    def test_randomizer_refuses_invalid_epsilon(self, randomizer, epsilon):
        with pytest.raises(InvalidEpsilon):
            msgspec.structs.replace(randomizer, epsilon=epsilon)


def functional_of_two(law: PairLaw, t: float) -> float:
    g = np.append(law.a - t * law.b, 0.0)
    mass = np.append(law.mass, max(0.0, 1 - law.mass.sum()))
    total = g[:, None] + g[None, :]
    return float(mass @ np.maximum(total, 0) @ mass) / 2


@pytest.mark.parametrize("randomizer", CATEGORICAL + DERIVED, ids=name)
def test_absent_codes_are_reported_as_uniform_codes(randomizer, rng):
    k, n = randomizer.categories, 20_000
    found = randomizer.estimate(randomizer.randomize(np.full(n, -1), rng))
    # Besides the noise, the draw of the categories varies by (1/k)(1 − 1/k)/n.
    spread = np.sqrt(found.variance + (1 / k) * (1 - 1 / k) / n)
    assert np.abs((found.value - 1 / k) / spread).max() < 5
    assert (randomizer.filled(np.full(n, -1), rng) >= 0).all()


@pytest.mark.parametrize("randomizer", INTERVAL, ids=name)
def test_absent_numbers_are_reported_as_the_middle_or_as_none(randomizer, rng):
    values = np.where(np.arange(20_000) % 4 == 0, math.nan, 0.3)
    found = randomizer.estimate(randomizer.randomize(values, rng))
    expected = [0.525, 0.225, 0.25] if isinstance(randomizer, Ternary) else 0.35
    assert np.abs((found.value - expected) / np.sqrt(found.variance)).max() < 4.5


def test_absent_vectors_are_reported_as_uniform_directions(rng):
    randomizer = PrivUnit(epsilon=4.0, dimension=3)
    found = randomizer.estimate(randomizer.randomize(np.full((20_000, 3), math.nan), rng))
    assert np.abs(found.value / np.sqrt(found.variance + 1 / 3 / 20_000)).max() < 4.5


@pytest.mark.parametrize("randomizer", CATEGORICAL + DERIVED, ids=name)
@pytest.mark.parametrize("wrong", [[-2], [10**6], [0, 1, 999], [0.5], ["a"], [None]])
def test_randomize_refuses_codes_outside_categories(randomizer, wrong, rng):
    with pytest.raises(UnknownCategory):
        randomizer.randomize(np.array(wrong), rng)


def test_unknown_code_error_names_value_and_position(rng):
    with pytest.raises(UnknownCategory, match=r"value 4 at position 2 .* 0…3"):
        KRR(epsilon=1.0, categories=4).randomize(np.array([0, 1, 4, 2]), rng)


@pytest.mark.parametrize("randomizer", INTERVAL, ids=name)
@pytest.mark.parametrize("wrong", [math.inf, -math.inf, -1e-9, 1 + 1e-9, "x"])
def test_randomize_refuses_numbers_outside_interval(randomizer, wrong, rng):
    with pytest.raises(NotANumber):
        randomizer.randomize(np.array([0.5, wrong]), rng)


@pytest.mark.parametrize("wrong", [[0.0, 0.0], [1.0, 0.1], [1.0, math.nan], [math.inf, 0.0]])
def test_randomize_refuses_non_unit_vectors(wrong, rng):
    with pytest.raises(NotANumber):
        PrivUnit(epsilon=1.0, dimension=2).randomize(np.array([[1.0, 0.0], wrong]), rng)


def test_randomize_refuses_vectors_of_wrong_dimension(rng):
    with pytest.raises(InvalidParameter, match="shape"):
        PrivUnit(epsilon=1.0, dimension=2).randomize(np.array([[1.0, 0.0, 0.0]]), rng)


@pytest.mark.parametrize("randomizer", CATEGORICAL + INTERVAL, ids=name)
def test_randomize_refuses_two_dimensional_values(randomizer, rng):
    with pytest.raises(InvalidParameter, match="one-dimensional"):
        randomizer.randomize(np.zeros((2, 2), np.int64), rng)


@pytest.mark.parametrize("kind", ["krr", "oue", "sue", "hadamard", "olh"])
@pytest.mark.parametrize("categories", [1, 0, -3, 2**31])
def test_randomizer_refuses_invalid_categories(kind, categories):
    with pytest.raises(InvalidParameter, match="categories"):
        RANDOMIZERS.load(kind)(epsilon=1.0, categories=categories)


def test_randomizer_refuses_invalid_dimension_and_delta():
    with pytest.raises(InvalidParameter, match="dimension"):
        PrivUnit(epsilon=1.0, dimension=1)
    for delta in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InvalidDelta):
            Gaussian(epsilon=1.0, delta=delta)
    with pytest.raises(InvalidEpsilon, match="too small"):
        KRR(epsilon=1e-12, categories=2**30)
    with pytest.raises(InvalidEpsilon, match="too small"):
        RR(epsilon=1e-17)
    with pytest.raises(InvalidEpsilon, match="too small"):
        OUE(epsilon=1e-17, categories=3)
    with pytest.raises(InvalidEpsilon, match="at most 30"):
        HadamardResponse(epsilon=30.5, categories=3)


@pytest.mark.parametrize(
    ("randomizer", "reports"),
    [
        (KRR(epsilon=1.0, categories=3), [3]),
        (KRR(epsilon=1.0, categories=3), [-1]),
        (KRR(epsilon=1.0, categories=3), [0.5]),
        (HadamardResponse(epsilon=1.0, categories=3), [4]),
        (OneBit(epsilon=1.0), [2]),
        (OLH(epsilon=1.0, categories=3), [[0, 0, 0]]),
        (OLH(epsilon=1.0, categories=3), [[1, 2**31 - 1, 0]]),
        (OLH(epsilon=1.0, categories=3), [[1, 0, 4]]),
        (DERIVED[0], [3]),
        (Laplace(epsilon=1.0), [math.nan]),
        (PrivUnit(epsilon=1.0, dimension=2), [[math.inf, 0.0]]),
    ],
)
def test_estimate_refuses_reports_of_another_randomizer(randomizer, reports):
    with pytest.raises(InvalidParameter, match="another randomizer"):
        randomizer.estimate(np.array(reports))


def test_generic_refuses_to_draw_and_estimate(rng):
    for call in (
        lambda: Generic(epsilon=1.0).randomize(np.array([0]), rng),
        lambda: Generic(epsilon=1.0).estimate(np.array([0])),
    ):
        with pytest.raises(InvalidParameter, match="choose a concrete one"):
            call()


def test_on_simplex_is_nearest_distribution(rng):
    randomizer = KRR(epsilon=0.2, categories=30)
    estimate = randomizer.estimate(randomizer.randomize(np.zeros(200, np.int64), rng))
    assert estimate.value.min() < 0
    nearest = estimate.on_simplex()
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(1)
    # the projection is closer than other points of the simplex
    distance = np.linalg.norm(nearest - estimate.value)
    for other in rng.dirichlet(np.full(30, 0.2), 200):
        assert distance <= np.linalg.norm(other - estimate.value) + 1e-12


def test_interval_has_stated_coverage(rng):
    randomizer = OUE(epsilon=1.0, categories=6)
    values = people(randomizer, 1000, rng)
    hits = []
    for _ in range(300):
        low, high = randomizer.estimate(randomizer.randomize(values, rng)).interval(0.9)
        hits.append((low <= randomizer.estimand(values)) & (randomizer.estimand(values) <= high))
    assert abs(np.mean(hits) - 0.9) < 0.04


def test_onebit_variance_is_conservative_for_uneven_values(rng):
    randomizer, values = OneBit(epsilon=5.0), np.repeat([0.0, 1.0], 300)
    estimates = [randomizer.estimate(randomizer.randomize(values, rng)) for _ in range(300)]
    spread = np.var([each.value for each in estimates])
    assert spread < np.mean([each.variance for each in estimates])
    assert abs(np.mean([each.value for each in estimates]) - 0.5) < 4.5 * math.sqrt(spread / 300)


def test_registry_lists_all_built_in_randomizers():
    assert set(RANDOMIZERS) == {
        *("generic", "rr", "krr", "oue", "sue", "hadamard", "channel"),
        "hierarchical",
        *("olh", "laplace", "gaussian", "privunit", "onebit", "ternary", "redirect", "one-of"),
    }
    for public in randomizers.__all__:
        assert hasattr(randomizers, public)
    assert isinstance(Estimate(np.zeros(1), np.zeros(1), 1).interval()[0], np.ndarray)
