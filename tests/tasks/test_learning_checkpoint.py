"""Checkpoints: what is interrupted or killed continues bit for bit, or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from incrowd import CheckInSGD
from incrowd.errors import (
    FileNotWritable,
    FileUnreadable,
    IncrowdError,
    InvalidParameter,
    NotANumber,
)
from incrowd.tasks.learning import CentralSGD, LocalSGD, Ridge, Softmax, checkpoint

RNG = np.random.default_rng(3)
LABELS = RNG.integers(0, 3, 200)
ROWS = RNG.normal(size=(200, 4))


def learner(path=None, **changes):
    settings = {
        "model": Softmax(classes=3),
        "rounds": 20,
        "rate": 0.2,
        "learning_rate": lambda t: 0.3 / (1 + t),
        "momentum": 0.5,
        "average": True,
        "seed": 9,
        "clip": 1.0,
        "sigma": 1.0,
        "checkpoint": path,
        "every": 3,
    }
    return CentralSGD(**{**settings, **changes})


class Stopped(Exception):
    """Stands for whatever interrupts a training."""


def stop_after(rounds):
    def tell(done, _total):
        if done == rounds:
            raise Stopped

    return tell


@pytest.mark.parametrize("rounds", [3, 7, 11])
def test_interrupted_training_continues_bit_for_bit(tmp_path, rounds):
    whole = learner().fit(ROWS, LABELS)
    path = tmp_path / "state.npz"
    with pytest.raises(Stopped):
        learner(path, progress=stop_after(rounds)).fit(ROWS, LABELS)
    held = []
    resumed = learner(path, progress=lambda done, _: held.append(done)).fit(ROWS, LABELS)
    assert held[0] == rounds // 3 * 3 + 1
    np.testing.assert_array_equal(resumed.parameters_, whole.parameters_)
    assert resumed.history_ == whole.history_
    assert resumed.epsilon(1e-5) == whole.epsilon(1e-5)
    assert os.listdir(tmp_path) == ["state.npz"]


def test_checkpoint_keeps_a_drawn_seed(tmp_path):
    path = tmp_path / "state.npz"
    with pytest.raises(Stopped):
        learner(path, seed=None, progress=stop_after(7)).fit(ROWS, LABELS)
    resumed = learner(path, seed=None).fit(ROWS, LABELS)
    whole = learner(seed=resumed.seed_).fit(ROWS, LABELS)
    np.testing.assert_array_equal(resumed.parameters_, whole.parameters_)


def test_checkpoint_takes_numpy_numbers_as_settings(tmp_path):
    path = tmp_path / "state.npz"
    model = Softmax(classes=np.arange(3), l2=np.float64(0.0))
    changes = {"rate": np.float64(0.2), "clip": np.float32(1.0), "seed": np.int64(9)}
    learner(path, rounds=20.0, model=model, **changes).partial_fit(ROWS, LABELS, rounds=5)
    same = learner(path).fit(ROWS, LABELS)
    np.testing.assert_array_equal(same.parameters_, learner().fit(ROWS, LABELS).parameters_)


def test_fit_from_a_checkpoint_holds_the_rest_of_the_plan(tmp_path):
    path = tmp_path / "state.npz"
    learner(path).partial_fit(ROWS, LABELS, rounds=10)
    longer = learner(path).fit(ROWS, LABELS)
    np.testing.assert_array_equal(longer.parameters_, learner().fit(ROWS, LABELS).parameters_)
    done = learner(path, progress=stop_after(1)).fit(ROWS, LABELS)
    np.testing.assert_array_equal(done.parameters_, longer.parameters_)


@pytest.mark.parametrize("rounds", [10, 30])
def test_checkpoint_of_another_plan_is_refused(tmp_path, rounds):
    """Else whoever saw the model could add rounds, or state fewer, because of it."""
    path = tmp_path / "state.npz"
    learner(path).partial_fit(ROWS, LABELS, rounds=5)
    with pytest.raises(InvalidParameter, match=r"differs in rounds \(20 there\)"):
        learner(path, rounds=rounds).fit(ROWS, LABELS)


def test_checkpoint_counts_a_failed_round_as_spent(tmp_path):
    path = tmp_path / "state.npz"
    wild = {"model": Ridge(), "learning_rate": lambda t: 1e-3 if t < 6 else 1e300, "clip": 1e10}
    with pytest.raises(NotANumber, match="round 6: a parameter"):
        learner(path, every=1, **wild).fit(ROWS, LABELS)
    with np.load(path) as file:
        assert len(file["steps"]) == 7
        before = file["parameters"]
    with pytest.raises(NotANumber, match="round 7: a parameter"):
        learner(path, every=100, **wild).fit(ROWS, LABELS)
    with np.load(path) as file:
        np.testing.assert_array_equal(file["parameters"], before)
        assert file["steps"].tolist()[6:] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"clip": 2.0}, r"differs in clip \(1.0 there\)"),
        ({"rate": 0.1, "momentum": 0.0}, r"momentum \(0.5 there\), rate \(0.2 there\)"),
        ({"seed": 8}, r"seed \(9 there\)"),
        ({"model": Softmax(classes=3, l2=0.1)}, "l2"),
        ({"model": Softmax(classes=4)}, "classes"),
        ({"learning_rate": 0.3}, "differs in learning_rate"),
    ],
)
def test_checkpoint_of_another_configuration_is_refused(tmp_path, changes, named):
    path = tmp_path / "state.npz"
    learner(path).fit(ROWS, LABELS)
    before = path.read_bytes()
    with pytest.raises(InvalidParameter, match=named):
        learner(path, **changes).fit(ROWS, LABELS)
    assert path.read_bytes() == before


def test_checkpoint_of_another_learner_or_other_data_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    learner(path).fit(ROWS, LABELS)
    settings = learner(path).get_params()
    del settings["sigma"]
    with pytest.raises(InvalidParameter, match="channel"):
        LocalSGD(**settings, epsilon0=1.0).fit(ROWS, LABELS)
    with pytest.raises(InvalidParameter, match=r"records \(\[200, 4\] there\)"):
        learner(path).fit(ROWS[:199], LABELS[:199])
    other = ROWS.copy()
    other[3, 1] = np.nextafter(other[3, 1], 9)
    for rows, labels in ((other, LABELS), (ROWS, (LABELS + 1) % 3), (ROWS[::-1], LABELS)):
        with pytest.raises(InvalidParameter, match=r"differs in data \('[0-9a-f]{64}' there\)"):
            learner(path).fit(rows, labels)
    learner(path).fit(np.asfortranarray(ROWS), LABELS)


@pytest.mark.parametrize(
    "damage", ["cut", "empty", "text", "npy", "bit", "header", "array", "pickle", "point", "nan"]
)
def test_damaged_checkpoints_are_refused(tmp_path, damage):
    path = tmp_path / "state.npz"
    learner(path).fit(ROWS, LABELS)
    whole = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not a checkpoint")
    elif damage == "npy":
        with path.open("wb") as file:
            np.save(file, ROWS)
    elif damage == "bit":
        with zipfile.ZipFile(path) as file:
            place = file.getinfo("parameters.npy").header_offset + 200
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    elif damage == "header":
        text = arrays["header"].tobytes().replace(b'"rate":0.2', b'"rate":0.3')
        np.savez(path, **{**arrays, "header": np.frombuffer(text, np.uint8)})
    elif damage == "array":
        np.savez(path, **{**arrays, "steps": arrays["steps"][:-1]})
    elif damage == "point":
        np.savez(path, **{**arrays, "steps": np.array(1.0)})
    elif damage == "nan":
        np.savez(path, **{**arrays, "velocity": arrays["velocity"] * np.nan})
    else:
        np.savez(path, **{**arrays, "steps": np.array([{}], dtype=object)})
    with pytest.raises(FileUnreadable, match=r"not a whole checkpoint[^\n]*$"):
        learner(path).fit(ROWS, LABELS)


def test_checkpoint_with_flipped_byte_is_refused_or_harmless(tmp_path):
    """Zip, array headers and JSON fail in many ways; whoever trains sees one line."""
    path = tmp_path / "state.npz"
    learner(path).fit(ROWS, LABELS)
    whole = path.read_bytes()
    with np.load(path) as file:
        parameters = file["parameters"]
    refused = 0
    for number, place in enumerate(np.linspace(0, len(whole) - 1, 240).astype(int)):
        flipped = whole[place] ^ (255 if number % 2 else 1 << number % 7)
        path.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        try:
            header, arrays = checkpoint._read(path)
        except FileUnreadable:
            refused += 1
        else:
            try:
                state = checkpoint.load(path, header.configuration, parameters.size)
            except IncrowdError:
                refused += 1
            else:
                np.testing.assert_array_equal(state.parameters, parameters)
                assert len(arrays) == 7
    assert refused > 200


def test_save_removes_what_a_killed_save_left(tmp_path):
    path = tmp_path / "state[1].npz"
    left, others = tmp_path / ".state[1].npz.abc.part", tmp_path / ".state[1].npz.swp"
    left.write_bytes(b"half")
    others.write_bytes(b"an editor's")
    learner(path).fit(ROWS, LABELS)
    assert sorted(os.listdir(tmp_path)) == [".state[1].npz.swp", "state[1].npz"]


def test_fit_names_a_checkpoint_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotWritable, match=r"cannot write the checkpoint .*nowhere"):
        learner(tmp_path / "nowhere" / "state.npz", progress=stop_after(1)).fit(ROWS, LABELS)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileUnreadable, match="cannot read the checkpoint"):
        learner(tmp_path / "folder").fit(ROWS, LABELS)


SETTINGS = {
    "rounds": 30,
    "rate": 0.2,
    "learning_rate": 0.3,
    "momentum": 0.5,
    "clip": 1.0,
    "epsilon0": 4.0,
    "seed": 7,
    "every": 1,
}
KILLED = """
import json, sys, time
import numpy as np
import incrowd as ic
from incrowd.tasks.learning import Softmax

def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.02)

rng = np.random.default_rng(3)
labels, rows = rng.integers(0, 3, 200), rng.normal(size=(200, 4))
settings = json.loads(sys.argv[2])
learner = ic.CheckInSGD(
    model=Softmax(classes=3), checkpoint=sys.argv[1], progress=slowly, **settings
)
sys.stdin.readline()
learner.fit(rows, labels)
"""


def test_killed_training_continues_bit_for_bit(tmp_path):
    """SIGKILL at whatever moment, twice, then to the end in a third process, which is this one.

    Both victims start at once, as starting is what takes time, and train one after the other.
    """
    path = tmp_path / "state.npz"
    command = [sys.executable, "-c", KILLED, str(path), json.dumps(SETTINGS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as other:
        for process, after in ((one, 4), (other, 13)):
            process.stdin.write("go\n")
            process.stdin.flush()
            for line in process.stdout:
                if int(line) >= after:
                    break
            time.sleep(0.013)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert path.exists()
    held = []
    model = Softmax(classes=3)
    resumed = CheckInSGD(
        model=model, checkpoint=path, progress=lambda done, _: held.append(done), **SETTINGS
    )
    resumed.fit(ROWS, LABELS)
    assert 13 < held[0] < 30
    whole = CheckInSGD(model=model, **SETTINGS).fit(ROWS, LABELS)
    np.testing.assert_array_equal(resumed.parameters_, whole.parameters_)
    assert resumed.history_ == whole.history_
