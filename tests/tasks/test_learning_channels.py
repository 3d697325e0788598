"""Channels: estimates are unbiased with the stated noise, clipped to the stated length."""

from __future__ import annotations

import numpy as np
import pytest

from incrowd.errors import InvalidParameter, NotProven
from incrowd.protocols.check_in.learning import CheckInReports, SummedNoise
from incrowd.randomizers.privunit import best_cap
from incrowd.randomness import Seeds
from incrowd.tasks.learning import (
    Batch,
    CentralNoise,
    Crowd,
    DenseGradients,
    LocalReports,
    NoPrivacy,
)

SIZE, PEOPLE = 6, 40
ROWS = np.random.default_rng(8).normal(size=(PEOPLE, SIZE)) * np.linspace(0.05, 3, PEOPLE)[:, None]
CROWD = Crowd(people=130, rate=0.4, size=SIZE)
CLIP = 1.5
CLIPPED = ROWS * np.minimum(1, CLIP / np.linalg.norm(ROWS, axis=1))[:, None]


def carried(channel, rows=ROWS, number=0, seed=1, crowd=CROWD):
    """In two blocks, as a large round comes."""
    blocks = [DenseGradients(rows[:11]), DenseGradients(rows[11:])] if len(rows) else []
    batch = Batch(len(rows), SIZE, iter([(each, each.norms()) for each in blocks]))
    return channel.average(batch, crowd, Seeds(seed), number)


def test_no_privacy_average_is_the_clipped_mean():
    np.testing.assert_allclose(carried(NoPrivacy()), ROWS.mean(axis=0))
    np.testing.assert_allclose(carried(NoPrivacy(CLIP)), CLIPPED.mean(axis=0), rtol=1e-12)
    with pytest.raises(NotProven, match="guarantees no privacy"):
        NoPrivacy().guarantee(CROWD, 1)


@pytest.mark.parametrize(
    ("channel", "centre", "deviation"),
    [
        (CentralNoise(CLIP, 0.8), CLIPPED.sum(axis=0) / 52, CLIP * 0.8 / 52),
        (SummedNoise(CLIP, 0.8), CLIPPED.mean(axis=0), CLIP * 0.8 / np.sqrt(PEOPLE)),
    ],
)
def test_channel_noise_has_the_stated_variance(channel, centre, deviation):
    draws = np.array([carried(channel, number=number) for number in range(3000)])
    error = (draws - centre) / deviation
    assert abs(error.mean(axis=0)).max() < 4.5 / np.sqrt(3000)
    assert abs(error.var() - 1) < 4.5 * np.sqrt(2 / error.size)


@pytest.mark.parametrize("kind", [LocalReports, CheckInReports])
def test_reports_are_unbiased_with_the_error_of_the_randomizer(kind):
    channel = kind(CLIP, 2.0)
    draws = np.array([carried(channel, number=number) for number in range(1500)])
    error = draws - CLIPPED.mean(axis=0)
    scale = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(abs(error.mean(axis=0)) < 4.5 * scale)
    # A report over m has squared length 1/m²; of the unit vector's own, one is its mean.
    height = best_cap(2.0, SIZE + 1).mean_height
    whole = CLIP**2 / PEOPLE * (1 / height**2 - 1)
    kept = whole * SIZE / (SIZE + 1)
    assert (error**2).sum(axis=1).mean() == pytest.approx(kept, rel=0.1)


def test_clipped_gradients_lie_on_the_sphere():
    channel = LocalReports(CLIP, 1.0)
    rows = np.concatenate([ROWS, np.zeros((1, SIZE)), 1e6 * ROWS[:1]])
    there = channel.on_sphere(rows, DenseGradients(rows).norms())
    np.testing.assert_allclose(np.linalg.norm(there, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(CLIP * there[:PEOPLE, :-1], CLIPPED, rtol=1e-9)
    np.testing.assert_array_equal(there[PEOPLE], [0, 0, 0, 0, 0, 0, 1])
    assert channel.randomizer(SIZE).dimension == SIZE + 1


def test_projected_reports_stay_in_the_subspace():
    channel = LocalReports(CLIP, 12.0, projection=2)
    assert channel.randomizer(SIZE).dimension == 3
    draws = np.array([carried(channel, number=number) for number in range(1500)])
    assert np.linalg.matrix_rank(draws, tol=1e-9) == 2
    basis = np.linalg.svd(draws, full_matrices=False)[2][:2]
    inside = ROWS @ basis.T
    inside *= np.minimum(1, CLIP / np.linalg.norm(inside, axis=1))[:, None]
    error = draws @ basis.T - inside.mean(axis=0)
    assert np.all(abs(error.mean(axis=0)) < 4.5 * error.std(axis=0) / np.sqrt(len(draws)))
    assert not np.allclose(carried(channel, seed=2) @ basis.T @ basis, carried(channel, seed=2))


def test_reports_of_many_people_are_randomized_in_parts(monkeypatch):
    from incrowd.tasks.learning import channels

    monkeypatch.setattr(channels, "_WRITTEN_AT_ONCE", 7 * SIZE)
    channel = LocalReports(CLIP, 6.0)
    draws = np.array([carried(channel, number=number) for number in range(600)])
    error = draws - CLIPPED.mean(axis=0)
    assert np.all(abs(error.mean(axis=0)) < 4.5 * error.std(axis=0) / np.sqrt(len(draws)))


def test_average_of_an_empty_round_is_none_or_noise_alone():
    none = np.empty((0, SIZE))
    for channel in (NoPrivacy(), LocalReports(1.0, 1.0), SummedNoise(1.0, 1.0)):
        assert channel.counted
        assert carried(channel, none) is None
    # A trusted curator must not show that nobody came.
    hidden = CentralNoise(1.0, 1.0)
    assert not hidden.counted
    assert np.linalg.norm(carried(hidden, none)) > 0


def test_guarantees_name_view_neighbours_and_assumptions():
    central = CentralNoise(1.0, 1.0).guarantee(CROWD, 3)
    assert central.view == {"analyst"}
    assert central.neighbours == "replace-one"
    assert any("trusted" in each for each in central.assumptions)
    assert any("floating-point" in each for each in central.assumptions)
    local = LocalReports(1.0, 1.0).guarantee(CROWD, 3)
    assert local.view == {"everyone"}
    assert any("floating-point" in each for each in local.assumptions)
    assert local.epsilon(1e-9) <= 3.0
    assert LocalReports(1.0, 1.0).guarantee(CROWD, 1).epsilon(1e-9) <= 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NoPrivacy(0.0), "clip must be above 0"),
        (lambda: CentralNoise(-1.0, 1.0), "clip must be above 0"),
        (lambda: CentralNoise(1.0, 0.0), "sigma must be at least"),
        (lambda: LocalReports(1.0, 0.0), "epsilon0 must be a positive"),
        (lambda: LocalReports(1.0, 1.0, 0), "projection must be a whole number ≥ 1"),
        (lambda: LocalReports(1.0, 1.0, 9).randomizer(4), "projection keeps 9 of 4 parameters"),
        (lambda: SummedNoise(1.0, -1.0), "sigma must lie between"),
    ],
)
def test_channel_with_wrong_argument_raises_one_clear_line(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()
