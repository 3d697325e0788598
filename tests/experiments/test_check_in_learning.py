"""Learning by check-in, as an experiment: it runs, goes on after a kill, and keeps its word."""

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import incrowd as ic
from experiments import check_in_learning as learning
from experiments import check_in_learning_linear as linear
from experiments.check_in_learning_data import Pictures, cifar, digits, edges
from experiments.check_in_learning_network import LAYERS, DigitNetwork
from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.randomness import Seeds
from tests.experiments.pieces import assert_drawing, published, quick_run, read_rows, rows

PIECES = {
    "check_in_learning.md",
    "check_in_learning.svg",
    "check_in_learning_network.md",
    "check_in_learning_network.svg",
}


def made_up(people=300, tests=50, side=28, seed=3):
    """Pictures with a bright bar whose place is the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, people + tests)
    pictures = rng.uniform(0, 0.2, (people + tests, side, side)).astype(np.float32)
    for picture, label in zip(pictures, labels, strict=True):
        picture[2 * label : 2 * label + 4] = 1
    return Pictures(
        "made up", pictures[:people], labels[:people], pictures[people:], labels[people:]
    )


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


def test_figures_are_svg(quick):
    for name in PIECES:
        if name.endswith(".svg"):
            assert_drawing(quick[0] / name)


def test_table_contains_all_learners(quick):
    found = read_rows(quick[0] / "check_in_learning.md")
    assert [row["who is trusted"] for row in found] == [
        "no privacy",
        "a trusted curator",
        "check-in, sums only",
        "check-in, shuffled reports",
        "nobody trusted",
    ]
    assert all(re.fullmatch(r"[\d.]+ ± [\d.]+ %", row["accuracy"]) for row in found)
    assert found[0]["ε"] == "∞"
    assert all(float(row["ε"]) > 0 for row in found[1:])


def test_quick_run_keeps_full_results(capsys):
    with pytest.raises(SystemExit) as stop:
        learning.main(["--quick"])
    assert stop.value.code == 2
    assert "--out" in capsys.readouterr().err


# ---- the network


def test_network_gradients_are_slopes_of_the_loss():
    model, pictures = DigitNetwork(), made_up(people=6)
    theta = model.start((28, 28), Seeds(1))
    found = model.gradients(theta, pictures.seen, pictures.labels)
    written = found.rows(slice(None)).astype(np.float64)
    for first, last in ((0, 1040), (1040, 9264), (9264, 25_680), (25_680, 26_010)):
        # In one layer after the other, so that none hides behind another.
        ratios = []
        for person in range(6):
            one = slice(person, person + 1)
            step = np.zeros(theta.size)
            step[first:last] = written[person, first:last]
            step *= 3e-4 / np.linalg.norm(step)
            ahead = model.losses(theta + step, pictures.seen[one], pictures.labels[one])
            behind = model.losses(theta - step, pictures.seen[one], pictures.labels[one])
            ratios.append((ahead - behind)[0] / 2 / (written[person] @ step))
        # The loss has kinks; a step crosses one now and then.
        assert np.median(ratios) == pytest.approx(1, abs=2e-3)
        assert ratios == pytest.approx([1] * 6, abs=0.05)
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=6)
    assert found.combined(weights) == pytest.approx(weights @ written, abs=1e-6)
    true = np.linalg.norm(written, axis=1)
    assert np.all(found.norms() >= true)
    assert found.norms() == pytest.approx(true, rel=1e-3)


def test_network_equals_torch_module():
    pytest.importorskip("torch", reason="torch is not installed")
    from torch import nn

    from incrowd.tasks.learning import TorchModule

    net = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip
    theirs = TorchModule(net, classes=10)
    theirs.start((1, 28, 28), Seeds(0))
    ours, pictures = DigitNetwork(), made_up(people=20)
    theta = ours.start((28, 28), Seeds(0))
    assert theta.size == sum(each.numel() for each in net.parameters()) == 26_010
    there = theirs.gradients(in_torch_order(theta), pictures.seen[:, None], pictures.labels)
    here = ours.gradients(theta, pictures.seen, pictures.labels).rows(slice(None))
    found = np.array([in_torch_order(row) for row in here])
    assert np.abs(found - there.rows(slice(None))).max() < 1e-6
    same = theirs.predict(in_torch_order(theta), pictures.unseen[:, None])
    assert np.array_equal(ours.predict(theta, pictures.unseen), same)


def in_torch_order(theta):
    """Channels first, and each layer's intercepts after its weights."""
    ends = np.cumsum([units * (size + 1) for units, size in LAYERS])[:-1]
    found = []
    for part, (units, _), shape in zip(
        np.split(theta, ends), LAYERS, [(8, 8, 1), (4, 4, 16), (4, 4, 32), (1, 1, 32)], strict=True
    ):
        matrix = part.reshape(units, -1)
        weights = matrix[:, :-1].reshape(units, *shape).transpose(0, 3, 1, 2)
        found += [weights.reshape(-1), matrix[:, -1]]
    return np.concatenate(found)


def test_network_refuses_other_pictures():
    with pytest.raises(InvalidParameter, match="28 by 28"):
        DigitNetwork().start((32, 32), Seeds(0))


def test_network_training_goes_on_after_a_kill(monkeypatch, tmp_path):
    monkeypatch.setattr(learning, "RATE", 0.2)
    monkeypatch.setattr(learning, "_digits", lambda _people, _tests: made_up())
    size = replace(learning.QUICK, milestones=(1, 2, 4), state=tmp_path / "whole")
    whole = learning._trained(size, 0)
    stopped = replace(size, state=tmp_path / "stopped")
    learning._trained(replace(stopped, milestones=(1, 2)), 0)
    # Killed after the checkpoint of round 2 and before its accuracy was kept.
    kept = tmp_path / "stopped" / "network-0.json"
    kept.write_text(json.dumps({"1": json.loads(kept.read_text())["1"]}))
    assert learning._trained(stopped, 0) == whole
    saved = replace(size, milestones=(1, 2, 4, 8), saved=True)
    assert list(learning.network_curves(replace(saved, network_seeds=1))) == [1, 2, 4]


def test_network_epsilons_equal_guarantees():
    found = learning.network_epsilons(1000)
    # What the learner itself guarantees, for the sums that it trains on.
    learner = ic.CheckInSGD(
        model=DigitNetwork(), rounds=1000, rate=1e-3, learning_rate=0.1, clip=0.05, sigma=0.86
    )
    assert found["sums"] == learner.guarantee((60_000, 28, 28)).epsilon(1 / 60_000)
    assert found["sums"] == pytest.approx(0.02796, rel=1e-3)
    assert found["reports"] == pytest.approx(28.171, rel=1e-3)
    assert found["sums"] < found["estimate"] < found["reports"]


# ---- the linear model


def test_edges_are_of_length_one_and_see_direction():
    flat = np.zeros((3, 28, 28), np.float32)
    flat[1, 10:20] = 1
    flat[2, :, 10:20] = 1
    found = edges(flat, 4)
    assert found.shape == (3, 128)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert found[1] @ found[2] < 0.6


def test_results_are_read_again_instead_of_computed(monkeypatch, tmp_path):
    data = made_up()
    plain, *_ = learning.QUICK.settings
    size = replace(learning.QUICK, settings=(plain,), seeds=2, state=tmp_path)
    found = linear.points(size, lambda: data, "bars")
    assert len(found[0].accuracies) == 2
    assert math.isinf(found[0].epsilon)
    monkeypatch.setattr(linear.Setting, "make", None)  # nothing is trained again
    assert linear.points(size, lambda: data, "bars") == found
    assert linear.points(replace(size, saved=True, state=tmp_path / "no"), lambda: data, "") == []


def test_settings_never_exceed_target_epsilon():
    for setting in linear.SETTINGS:
        if setting.learner in ("central", "local"):
            guarantee = setting.make(0).guarantee((60_000, 8 * setting.cells**2))
            assert guarantee.epsilon(1 / 60_000) <= setting.target


@pytest.mark.slow
def test_check_in_settings_never_exceed_target_epsilon():
    for setting in linear.SETTINGS:
        if setting.learner in ("summed", "check-in"):
            guarantee = setting.make(0).guarantee((60_000, 8 * setting.cells**2))
            assert 0.9 * setting.target < guarantee.epsilon(1 / 60_000) <= setting.target


# ---- pictures


def write_cifar(folder, name, count, rng):
    records = rng.integers(0, 256, (count, 1 + 3 * 32 * 32), np.uint8)
    records[:, 0] %= 10
    records.tofile(folder / name)
    return records


@pytest.fixture
def colours(tmp_path):
    folder, rng = tmp_path / "cifar", np.random.default_rng(0)
    folder.mkdir()
    first = write_cifar(folder, "data_batch_1.bin", 250, rng)
    write_cifar(folder, "data_batch_2.bin", 50, rng)
    write_cifar(folder, "test_batch.bin", 40, rng)
    return folder, first


def test_cifar_reader_returns_stored_pictures(colours):
    folder, first = colours
    found = cifar(folder)
    assert found.seen.shape == (300, 32, 32)
    assert found.unseen.shape == (40, 32, 32)
    assert np.array_equal(found.labels[:250], first[:, 0])
    grey = first[7, 1:].astype(float).reshape(3, 32, 32).mean(axis=0) / 255
    assert found.seen[7] == pytest.approx(grey, abs=1e-6)


def test_cifar_adds_its_pieces(colours):
    assert set(learning.experiment().pieces) == PIECES
    pieces = learning.experiment(colours[0]).pieces
    assert set(pieces) - PIECES == {"check_in_learning_cifar.md", "check_in_learning_cifar.svg"}


def test_cifar_is_learned_from(colours, tmp_path):
    pieces = learning.experiment(colours[0]).pieces
    size = replace(learning.QUICK, settings=learning.QUICK.settings[:2], state=tmp_path)
    text = pieces["check_in_learning_cifar.md"](size).render("x")
    assert "CIFAR-10" in text
    assert "300 people" in text
    assert len(rows(text)) == 2
    assert "<svg" in pieces["check_in_learning_cifar.svg"](size).render("x")


def test_cifar_reader_refuses_pickles(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02}q\x01.")
    with pytest.raises(FileUnreadable, match="binary version"):
        learning.experiment(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 3072, b"\x0a" + b"\x00" * 3072])
def test_cifar_reader_refuses_other_files(tmp_path, content):
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(FileUnreadable, match="CIFAR-10"):
        cifar(tmp_path)


def test_digits_without_directory_are_refused(monkeypatch, tmp_path):
    monkeypatch.delenv("INCROWD_DATA", raising=False)
    with pytest.raises(FileUnreadable, match="INCROWD_DATA"):
        digits()
    monkeypatch.setenv("INCROWD_DATA", str(tmp_path))
    with pytest.raises(FileUnreadable, match=r"mnist\.npz"):
        digits()


# ---- what is in the documentation


def test_documentation_lists_settings():
    found = published("check_in_learning.md")
    assert len(found) == len(linear.SETTINGS)
    ordered = sorted(linear.SETTINGS, key=lambda each: list(linear.NAMES).index(each.learner))
    for row, setting in zip(found, ordered, strict=True):
        assert row["noise"] == linear.noise(setting)
        if setting.learner != "plain":
            assert float(row["ε"]) <= setting.target
