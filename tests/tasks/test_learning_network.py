"""Neural networks: torch modules with every person's own gradient."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from incrowd.errors import InvalidParameter, MissingExtra, ProtocolFailed, UnknownCategory
from incrowd.randomness import Seeds
from incrowd.tasks.learning import CentralSGD, LocalSGD, PlainSGD, Softmax, TorchModule

torch = pytest.importorskip("torch", reason="neural networks need the extra incrowd[learn]")
nn = torch.nn
torch.set_num_threads(1)

RNG = np.random.default_rng(6)
LABELS = RNG.integers(0, 3, 300)
IMAGES = (0.5 * RNG.normal(size=(300, 1, 6, 6))).astype(np.float32)
IMAGES[np.arange(300), 0, 2 * LABELS, :] += 1.5


def small():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(27, 3)
    )


def one_by_one(net, images, labels):
    """Plain autograd, one person after the other."""
    found = []
    for image, label in zip(images, labels, strict=True):
        loss = nn.functional.cross_entropy(
            net(torch.from_numpy(image[None])), torch.tensor([int(label)])
        )
        parts = torch.autograd.grad(loss, list(net.parameters()))
        found.append(torch.cat([part.reshape(-1) for part in parts]).numpy())
    return np.array(found)


class Branching(nn.Linear):
    """A module that looks at its numbers, which torch cannot do for all people at once."""

    def __init__(self):
        super().__init__(3, 3)

    def forward(self, rows):
        return super().forward(rows) if rows.sum() > 0 else -super().forward(rows)


NETS = {
    "convolution": small,
    "strides and padding": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 2, 2, padding="valid", bias=False),
        nn.Flatten(),
        nn.Linear(8, 5, bias=False),
        nn.GELU(),
        nn.Linear(5, 3),
    ),
    "groups": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 2, groups=2), nn.Flatten(), nn.Linear(36, 3)
    ),
    "norms": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(36, 8), nn.LayerNorm(8), nn.Sigmoid(), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_network_gradients_match_those_of_single_people(name):
    net = NETS[name]()
    model = TorchModule(net, classes=3)
    theta = model.start((1, 6, 6), Seeds(1))
    found = model.gradients(theta, IMAGES[:9], model.targets(LABELS[:9]))
    expected = one_by_one(net, IMAGES[:9], LABELS[:9])
    np.testing.assert_allclose(found.rows(slice(None)), expected, rtol=1e-3, atol=2e-6)


def test_linear_module_trains_as_softmax_regression():
    rows = IMAGES.reshape(300, 36)
    net = nn.Linear(36, 3)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    common = {"rounds": 20, "rate": 0.5, "learning_rate": 0.2, "seed": 1}
    there = PlainSGD(model=TorchModule(net, classes=3), **common).fit(rows, LABELS)
    here = PlainSGD(model=Softmax(classes=3), **common).fit(rows, LABELS)
    weights, bias = np.split(there.parameters_, [108])
    found = np.column_stack([weights.reshape(3, 36), bias])
    np.testing.assert_allclose(found.reshape(-1), here.parameters_, atol=1e-5)
    assert there.loss(rows, LABELS) == pytest.approx(here.loss(rows, LABELS), rel=1e-4)
    assert not net.weight.any(), "the caller's module is never changed"


@pytest.mark.parametrize(
    "learner",
    [
        lambda **kw: CentralSGD(clip=1.0, sigma=0.5, **kw),
        lambda **kw: LocalSGD(clip=1.0, epsilon0=20.0, projection=20, **kw),
    ],
)
def test_networks_learn_and_are_repeatable(learner, tmp_path):
    common = {"rounds": 60, "rate": 0.2, "learning_rate": 0.3, "seed": 3}
    first = learner(model=TorchModule(small, classes=3), **common).fit(IMAGES, LABELS)
    assert first.score(IMAGES, LABELS) > 0.6
    path = tmp_path / "state.npz"
    half = {**common, "checkpoint": path}
    learner(model=TorchModule(small, classes=3), **half).partial_fit(IMAGES, LABELS, rounds=25)
    second = learner(model=TorchModule(small, classes=3), **half).fit(IMAGES, LABELS)
    np.testing.assert_array_equal(first.parameters_, second.parameters_)


def test_modules_are_made_from_the_seed_alone():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    starts = [TorchModule(small, classes=3).start((1, 6, 6), Seeds(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_network_gradients_of_many_people_are_computed_in_parts(monkeypatch):
    from incrowd.tasks.learning import network

    settings = {"rounds": 3, "rate": 0.9, "learning_rate": 0.1, "seed": 1}
    whole = PlainSGD(model=TorchModule(small, classes=3), **settings).fit(IMAGES, LABELS)
    size = whole.parameters_.size
    monkeypatch.setattr(network, "_MOST_NUMBERS", 7 * size)
    monkeypatch.setattr(network, "_PREDICTED_AT_ONCE", 11)
    parts = PlainSGD(model=TorchModule(small, classes=3), **settings).fit(IMAGES, LABELS)
    assert parts.model.at_once(size) == 7
    np.testing.assert_allclose(parts.parameters_, whole.parameters_, rtol=1e-3, atol=1e-6)
    assert parts.predict(IMAGES).shape == (300,)


def test_frozen_parameters_stay_and_cost_nothing():
    net = small()
    net[0].requires_grad_(False)
    learner = PlainSGD(
        model=TorchModule(net, classes=3), rounds=5, rate=0.5, learning_rate=0.1, seed=1
    ).fit(IMAGES, LABELS)
    assert learner.parameters_.size == 27 * 3 + 3
    assert net.training, "the caller's module is never changed"
    copied = copy.deepcopy(learner)
    np.testing.assert_array_equal(copied.predict(IMAGES), learner.predict(IMAGES))


def test_model_is_shared_by_several_trainings():
    def frozen():
        net = small()
        net[0].requires_grad_(False)
        return net

    model = TorchModule(frozen, classes=3)
    settings = {"rounds": 5, "rate": 0.5, "learning_rate": 0.1}
    first = PlainSGD(model=model, seed=1, **settings).fit(IMAGES, LABELS)
    before = first.loss(IMAGES, LABELS)
    PlainSGD(model=model, seed=2, **settings).fit(IMAGES, LABELS)
    assert first.loss(IMAGES, LABELS) == before


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: TorchModule(3, classes=3), InvalidParameter, "module must be a torch module"),
        (lambda: TorchModule(small, classes=1), InvalidParameter, "classes must be"),
        (
            lambda: TorchModule(lambda: 3, classes=3).start((4,), Seeds(0)),
            InvalidParameter,
            "what module makes must be a Module",
        ),
        (
            lambda: TorchModule(small, classes=3).start((7,), Seeds(0)),
            InvalidParameter,
            r"takes no records of \(7,\)",
        ),
        (
            lambda: TorchModule(small, classes=4).start((1, 6, 6), Seeds(0)),
            InvalidParameter,
            "must return 4 scores per record",
        ),
        (
            lambda: TorchModule(nn.BatchNorm1d(3), classes=3).start((3,), Seeds(0)),
            InvalidParameter,
            "BatchNorm1d, which mixes people",
        ),
        (
            lambda: TorchModule(nn.Flatten(), classes=3).start((3,), Seeds(0)),
            InvalidParameter,
            "no parameters that are to be trained",
        ),
        (
            lambda: TorchModule(Branching, classes=3).start((3,), Seeds(0)),
            InvalidParameter,
            r"takes no records of \(3,\)",
        ),
        (
            lambda: TorchModule(small, classes=3).predict(np.zeros(3), IMAGES),
            ProtocolFailed,
            "not started yet",
        ),
        (
            lambda: TorchModule(small, classes=3).targets(np.array([5])),
            UnknownCategory,
            "label 5 is none",
        ),
    ],
)
def test_network_with_wrong_argument_raises_one_clear_line(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_linear_models_do_not_load_torch():
    code = (
        "import sys, incrowd as ic; from incrowd.tasks.learning import *; "
        "PlainSGD(model=Softmax(classes=2), rounds=1, rate=1.0, learning_rate=1.0)"
        ".fit([[1.0], [0.0]], [1, 0]); ic.CheckInSGD; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_network_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'incrowd\[learn\]'"):
        TorchModule(small, classes=3)


def test_learning_guide_runs():
    page = Path(__file__).parents[2] / "docs" / "learning.md"
    blocks = re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "learning.md", "exec"), {})
