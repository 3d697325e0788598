"""One of several randomizers: laws of the parts, reports of one length, estimates."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from scipy.stats import chi2

import incrowd as ic
from incrowd.errors import InvalidEpsilon, InvalidParameter, UnknownCategory
from incrowd.privacy import LocalProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.runtime.wire import ReportFormat, pack
from incrowd.randomizers import (
    KRR,
    OLH,
    OUE,
    RR,
    Channel,
    Gaussian,
    Laplace,
    OneOf,
    PrivUnit,
    Ternary,
)
from incrowd.tasks import natural_task

MIXED = OneOf(
    (KRR(categories=5, epsilon=1.0), OUE(categories=20, epsilon=2.0), Ternary(epsilon=1.5)),
    probabilities=(0.5, 0.3, 0.2),
)
EVERY = OneOf(
    (
        RR(epsilon=1.0),
        KRR(categories=300, epsilon=1.0),
        OLH(categories=9, epsilon=1.0),
        Channel(((0.7, 0.3), (0.4, 0.6))),
        Laplace(epsilon=1.0),
    )
)


def people(n: int, rng: np.random.Generator) -> np.ndarray:
    """Codes, codes and numbers; some are absent."""
    columns = [rng.integers(5, size=n), rng.integers(20, size=n), rng.random(n)]
    values = np.column_stack(columns).astype(float)
    values[rng.random(n) < 0.1, 2] = math.nan
    return values


def test_reports_of_all_parts_have_one_length(rng):
    reports = MIXED.randomize(people(500, rng), rng)
    assert reports.shape == (500, MIXED.report_bytes) == (500, 4)
    assert reports.dtype == np.uint8
    assert set(reports[:, 0]) == {0, 1, 2}
    assert not reports[reports[:, 0] == 0, 2:].any()


def test_split_returns_reports_that_parts_can_read(rng):
    reports = EVERY.randomize(np.tile([1, 250, 4, 0, 0.25], (4000, 1)), rng)
    parts = EVERY.split(reports)
    assert sum(map(len, parts)) == 4000
    for part, own in zip(EVERY.parts, parts, strict=True):
        direct = part.randomize(
            np.array([0]) if part.domain == "category" else np.array([0.5]), rng
        )
        assert (own.dtype, own.shape[1:]) == (direct.dtype, direct.shape[1:])
    found = [part.estimate(own) for part, own in zip(EVERY.parts, parts, strict=True)]
    for estimate, at, truth in zip(found, (1, 250, 4, 0, ()), (1, 1, 1, 1, 0.25), strict=True):
        assert abs(estimate.value[at] - truth) < 4.5 * math.sqrt(estimate.variance[at])


def test_parts_are_drawn_with_their_probabilities(rng):
    drawn = np.bincount(MIXED.randomize(people(50_000, rng), rng)[:, 0], minlength=3)
    expected = 50_000 * np.array(MIXED.probabilities)
    assert ((drawn - expected) ** 2 / expected).sum() < chi2.isf(1e-5, 2)


def test_part_of_a_report_does_not_depend_on_the_values(rng):
    for values in (np.zeros((3, 3)), np.array([[4, 19, 1.0]] * 3), np.full((3, 3), np.nan)):
        chosen = [MIXED.randomize(values, np.random.default_rng(s))[:, 0] for s in range(20)]
        first = [MIXED.randomize(people(3, rng), np.random.default_rng(s))[:, 0] for s in range(20)]
        assert np.array_equal(chosen, first)


def test_estimate_is_unbiased_with_stated_variance(rng):
    randomizer = OneOf((KRR(categories=3, epsilon=1.0), OUE(categories=4, epsilon=1.0)), (0.6, 0.4))
    values = np.column_stack(
        [rng.integers(3, size=600), np.minimum(rng.geometric(0.5, 600) - 1, 3)]
    )
    runs = [randomizer.estimate(randomizer.randomize(values, rng)) for _ in range(600)]
    found, stated = (np.array([getattr(run, at) for run in runs]) for at in ("value", "variance"))
    z = (found.mean(axis=0) - randomizer.estimand(values)) / np.sqrt(stated.mean(axis=0) / 600)
    assert np.abs(z).max() < 4.5
    assert found.var(axis=0) / stated.mean(axis=0) == pytest.approx(np.ones(7), abs=0.3)


def test_estimate_without_reports_of_a_part_knows_nothing_of_it(rng):
    only = MIXED.randomize(people(1, rng), np.random.default_rng(1))
    found = MIXED.estimate(only)
    assert np.isinf(found.variance).any()
    assert np.isfinite(found.value).all()


def test_one_of_survives_round_trip():
    for randomizer in (MIXED, EVERY):
        table = msgspec.to_builtins(randomizer)
        assert msgspec.convert(table, OneOf) == randomizer
        assert msgspec.json.decode(msgspec.json.encode(randomizer), type=OneOf) == randomizer
        assert hash(randomizer) == hash(msgspec.structs.replace(randomizer))
    assert MIXED.epsilon == 2.0


def test_reports_are_read_back_from_the_wire(rng):
    form = ReportFormat.of(MIXED)
    reports = MIXED.randomize(people(50, rng), rng)
    assert np.array_equal(form.unpack(pack(reports)), reports)
    wrong = [b"\x03\0\0\0", b"\0\x05\0\0", b"\0\0\0\x01", b"\x02\x03\0\0", b""]
    assert len(form.unpack([*wrong, *pack(reports)])) == 50


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: OneOf(()), "parts must be 1 to 256 randomizers, got 0"),
        (lambda: OneOf((PrivUnit(epsilon=1.0, dimension=3),)), "part 1 is privunit"),
        (lambda: OneOf((RR(epsilon=1.0), Gaussian(epsilon=1.0, delta=1e-6))), "part 2 is gaussian"),
        (lambda: OneOf((RR(epsilon=1.0),), (0.5, 0.5)), "one for each of the 1 parts, got 2"),
        (lambda: OneOf((RR(epsilon=1.0),) * 2, (1.0, 0.0)), "must be positive numbers that sum"),
        (lambda: OneOf((RR(epsilon=1.0),) * 2, (0.5, 0.6)), "must be positive numbers that sum"),
        (
            lambda: OneOf((RR(epsilon=1.0),) * 2, (math.nan, 0.5)),
            "must be positive numbers that sum",
        ),
    ],
)
def test_wrong_parts_are_refused_in_one_line(made, message):
    with pytest.raises(InvalidParameter) as caught:
        made()
    assert message in str(caught.value)


def test_wrong_values_are_refused(rng):
    with pytest.raises(InvalidParameter, match=r"shape \(people, 3\), got \(2, 2\)"):
        MIXED.randomize(np.zeros((2, 2)), rng)
    with pytest.raises(UnknownCategory):
        OneOf((RR(epsilon=1.0),)).randomize(np.full((9, 1), 0.5), rng)
    with pytest.raises(InvalidEpsilon, match="must be left out or at least 2"):
        OneOf(MIXED.parts, epsilon=1.0)
    with pytest.raises(InvalidParameter, match="question of its own"):
        natural_task(MIXED)


class TestLaws:
    def test_one_part_alone_has_its_own_curves(self):
        krr = KRR(categories=4, epsilon=1.0)
        for n in (2, 1000):
            found, known = (blanket_profile(each, n) for each in (OneOf((krr,)), krr))
            assert found.epsilon(1e-6) == pytest.approx(known.epsilon(1e-6), rel=1e-6)
            assert found.lower(1e-6) == pytest.approx(known.lower(1e-6), rel=1e-6)

    def test_curve_of_equal_parts_lies_below_that_of_one(self):
        """Which part was drawn splits the crowd, so that fewer hide a report, yet the parts of one
        crowd are never easier to tell apart than one part in a crowd of its expected share."""
        krr = KRR(categories=4, epsilon=1.0)
        whole, shared = (blanket_profile(each, 1000) for each in (krr, OneOf((krr, krr))))
        half = blanket_profile(krr, 450)
        assert whole.epsilon(1e-6) < shared.epsilon(1e-6) < half.epsilon(1e-6)

    def test_local_curve_is_the_mean_of_the_parts(self):
        for epsilon in (-1.0, 0.0, 0.7, 1.2):
            each = [part.local_delta(epsilon) for part in MIXED.parts]
            assert MIXED.local_delta(epsilon) == pytest.approx(np.dot(MIXED.probabilities, each))
        assert MIXED.local_delta(2.0) == 0
        assert LocalProfile(MIXED).epsilon(1e-9) <= MIXED.epsilon

    def test_laws_are_normalised(self):
        for randomizer in (MIXED, EVERY):
            law = randomizer.blanket()
            assert law.a @ law.mass == pytest.approx(1, abs=1e-9)
            assert all(each.mass.sum() == pytest.approx(1) for each in randomizer.attack())
            assert blanket_profile(randomizer, 500).epsilon(1e-6) < randomizer.epsilon

    def test_exactness_is_that_of_the_parts(self):
        assert MIXED.exact
        assert not EVERY.exact


def test_trusted_shuffle_collects_and_accounts_for_it(rng):
    protocol = ic.TrustedShuffle(MIXED, n=2000)
    guarantee = protocol.guarantee()
    assert 0 < guarantee.lower(1e-6) <= guarantee.epsilon(1e-6) < MIXED.epsilon
    assert protocol.cost().expected_error is None  # parts have no unit in common
