"""Learning by a token, as an experiment: it runs, its noise is the least, and results are kept."""

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments import token_learning as learning
from experiments.common import FIGURES
from experiments.token_learning_data import Contender, Houses, walks
from incrowd.errors import FileUnreadable
from incrowd.randomness import Seeds
from incrowd.tasks.learning.sampling import Participants
from tests.experiments.pieces import assert_drawing, published, quick_run, read_rows

PIECES = set(learning.PIECES)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    if "INCROWD_DATA" not in os.environ:
        pytest.skip("INCROWD_DATA is not set")
    directory = tmp_path_factory.mktemp("figures")
    return directory, quick_run(learning.main, directory)


def test_experiment_writes_named_files(quick):
    directory, printed = quick
    assert {Path(name).name for name in printed} == PIECES
    assert {path.name for path in directory.iterdir()} == PIECES
    for name in PIECES:
        if name.endswith(".svg"):
            assert_drawing(directory / name)


def test_table_lists_all_methods(quick):
    found = read_rows(quick[0] / "token_learning.md")
    assert [row["who is trusted"] for row in found] == list(learning.NAMES.values())
    assert all(re.fullmatch(r"[\d.]+ ± [\d.]+ %", row["accuracy"]) for row in found)
    assert found[0]["proven ε"] == "∞"
    assert all(float(row["proven ε"]) <= 1 for row in found[1:])


def test_quick_run_keeps_full_results(capsys):
    with pytest.raises(SystemExit) as stop:
        learning.main(["--quick"])
    assert stop.value.code == 2
    assert "--out" in capsys.readouterr().err


def test_missing_data_is_reported(monkeypatch, tmp_path):
    from experiments.token_learning_data import houses

    monkeypatch.delenv("INCROWD_DATA", raising=False)
    with pytest.raises(FileUnreadable, match="set INCROWD_DATA"):
        houses(10)
    monkeypatch.setenv("INCROWD_DATA", str(tmp_path))
    with pytest.raises(FileUnreadable, match="cannot read"):
        houses(10)


def made_up(people=30, seed=2):
    rng = np.random.default_rng(seed)
    records = rng.normal(size=(people, 8, 4))
    records /= np.linalg.norm(records, axis=2, keepdims=True)
    labels = (records[..., 0] > 0).astype(np.int64)
    return Houses(records, labels, records[0], labels[0])


@pytest.mark.parametrize("way", learning.NAMES)
def test_batched_trainings_equal_learner_steps(way):
    data, steps, seeds = made_up(), 150, (11, 12)
    cap = 3 if way in ("public", "paper", "local") else None
    setting = learning.Setting(way, 1.0, cap)
    sigma = 0.0 if way == "plain" else 1.5
    holders = np.empty((steps, 2), np.intp)
    noise = np.empty((steps, 2, 4))
    for at, seed in enumerate(seeds):
        people = Participants(Seeds(seed), 30, "one")
        for step in range(steps):
            (holders[step, at],) = people.inside(step)
            noise[step, at] = Seeds(seed).generator("noise", step).standard_normal(4)
    # Beside another contender, and in two parts.
    contenders = [Contender(7.0, 0.5), setting.contender(sigma, 0.3)]
    theta, times = np.zeros((2, 2, 4)), np.zeros((2, 30), np.int64)
    for part in (slice(0, 60), slice(60, steps)):
        walks(data, contenders, holders[part], noise[part], theta, times)
    for at, seed in enumerate(seeds):
        learner = setting.make(sigma, 0.3, seed, steps).fit(data.records, data.labels)
        np.testing.assert_allclose(theta[at, 1], learner.parameters_, rtol=1e-8)


def test_paper_sigma_matches_printed_noise():
    for epsilon, cap, sigma in ((1, 10, 20.35), (1, 20, 20.45), (1, 30, 20.56), (10, 10, 2.577)):
        assert learning.paper_sigma(2000, cap, epsilon) == pytest.approx(sigma, abs=1e-9)


@pytest.mark.parametrize(
    ("way", "cap"),
    [pytest.param("central", None, marks=pytest.mark.slow), ("hidden", None), ("local", 3)],
)
def test_noise_is_the_least_that_meets_the_budget(way, cap):
    setting = learning.Setting(way, 2.0, cap)
    sigma = learning.least_sigma(setting, 50, 100, 4, digits=2)
    digit = 10 ** (np.floor(np.log10(sigma)) - 1)
    for noise, meets in ((sigma, True), (sigma - 1.01 * digit, False)):
        guarantee = setting.make(noise, 0.1, 0, 100).guarantee((50, 4))
        assert (guarantee.delta(2.0) <= learning.DELTA) == meets


def test_stopped_run_resumes(quick, tmp_path, monkeypatch):
    del quick  # the data are there
    size = replace(learning.QUICK, state=tmp_path, runs=1)
    monkeypatch.setattr(learning, "least_sigma", lambda *_: 2.0)
    first = learning.trained(size)
    monkeypatch.setattr(learning, "_tune", None)
    more = learning.trained(replace(size, runs=2))
    for way, one in first.items():
        np.testing.assert_array_equal(more[way].objective[0], one.objective[0])
        assert len(more[way].objective) == 2
        assert more[way].proven == one.proven
    saved = learning.trained(replace(size, runs=9, saved=True))
    assert {len(one.objective) for one in saved.values()} == {2}


# ---- what was found at full size


def written():
    if not (FIGURES / "token_learning.md").exists():
        pytest.skip("the full results are not written yet")
    return published("token_learning.md")


def test_noise_of_the_full_results_meets_its_budget():
    found = {(row["who is trusted"], row["budget ε"]): row for row in written()}
    for budget, hidden, local in (("1", 1.4704, 26.719), ("10", 0.8520, 3.4221)):
        for way in ("a trusted curator", "token, hidden path"):
            assert float(found[way, budget]["noise σ"]) == pytest.approx(hidden, rel=1e-3)
        cap = int(found["nobody trusted", budget]["cap"])
        noise = float(found["nobody trusted", budget]["noise σ"])
        assert noise == pytest.approx(local * (cap / 10) ** 0.5, rel=1e-3)
        for way in list(learning.NAMES.values())[1:]:
            assert float(found[way, budget]["proven ε"]) <= float(budget)
