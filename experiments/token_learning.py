"""Learning by a token: how well it tells houses apart, against a curator and against no trust.

    export INCROWD_DATA=DIRECTORY
    python -m experiments.token_learning [--quick --out DIRECTORY] [--state FOLDER] [--saved]

Figure 2 of "Privacy Amplification by Decentralization" (Cyffers, Bellet) at its own size: 2,000
people with 8 houses each train a logistic regression in 20,000 steps, each of them by one person
who is drawn at random; one person's data replaced, δ = 10⁻⁶, ε = 1 and 10, 20 runs. All ways to
train take the same steps and differ in the noise that they need.

A full run takes about a quarter of an hour of a core. Whatever is found is kept in ``--state``
(default ``out/token_learning``), so that a run that was killed goes on where it stopped;
``--saved`` writes what has been found so far and trains nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import incrowd as ic
from experiments import token_learning_figures as figures
from experiments.check_in_learning_data import load, save, tell
from experiments.common import Drawing, Experiment, Table
from experiments.token_learning_data import POINTS, Contender, Houses, houses, tuned
from incrowd.report.format import count, round_up, up
from incrowd.tasks.learning import SGD, CentralSGD, LocalSGD, Logistic, PlainSGD

__all__ = [
    "FULL",
    "QUICK",
    "Setting",
    "Size",
    "least",
    "least_sigma",
    "main",
    "paper_sigma",
    "settings",
]

MODULE = "experiments.token_learning"
STATE = Path(__file__).resolve().parent.parent / "out" / "token_learning"
DELTA = 1e-6
CLIP = 1.0
_TUNING_SEED = 99
_MODEL = Logistic(intercept=False)

NAMES: Mapping[str, str] = {
    "plain": "no privacy",
    "central": "a trusted curator",
    "hidden": "token, hidden path",
    "public": "token, public path",
    "paper": "token, the paper's noise",
    "local": "nobody trusted",
}


@dataclass(frozen=True)
class Setting:
    """A way to train, a budget, and how often one person contributes where that is limited."""

    way: str
    epsilon: float = math.inf
    cap: int | None = None

    @property
    def key(self) -> str:
        """Its name among what is kept."""
        return f"{self.way}, epsilon {self.epsilon:g}, cap {self.cap}"

    def contender(self, sigma: float, speed: float) -> Contender:
        """The same training, for many at once."""
        return Contender(sigma, speed, self.cap, rests=self.way == "local")

    def make(self, sigma: float, speed: float, seed: int, steps: int) -> SGD:
        """The learner."""
        common: dict[str, Any] = {
            "model": _MODEL, "rounds": steps, "learning_rate": speed, "seed": seed,
        }  # fmt: skip
        if self.way == "plain":
            return PlainSGD(**common, rate="one")
        common |= {"clip": CLIP, "sigma": sigma}
        if self.way == "central":
            return CentralSGD(**common, rate="one")
        if self.way == "local":
            return LocalSGD(**common, rate="one", cap=self.cap)
        if self.way == "hidden":
            return ic.TokenSGD(**common)
        return ic.TokenSGD(**common, path="public", cap=self.cap, record_norm=1.0)


@dataclass(frozen=True)
class Size:
    """How much is done. ``state`` keeps results; with ``saved`` nothing is trained."""

    people: int
    steps: int
    budgets: tuple[float, ...]
    shares: tuple[int, ...]
    """Contributions of one person at most, as multiples of the mean, where that is limited."""
    speeds: tuple[float, ...]
    tuning: int
    """Walks by which settings are chosen."""
    runs: int
    milestones: int
    """How often a training is looked at."""
    digits: int
    """Of the noise, which is rounded up to so many."""
    state: Path
    saved: bool = False


FULL = Size(
    people=2000,
    steps=20_000,
    budgets=(1, 10),
    shares=(1, 2, 3),
    # The paper's range, seven to a decade.
    speeds=tuple(round_up(2 * 10 ** (-at / 7), 3) for at in range(30, -1, -1)),
    tuning=10,
    runs=20,
    milestones=40,
    digits=4,
    state=STATE,
)
QUICK = replace(
    FULL,
    people=100,
    steps=300,
    budgets=(1,),
    shares=(1,),
    speeds=(0.005, 0.05, 0.5),
    tuning=2,
    runs=2,
    milestones=3,
    digits=2,
)


def settings(size: Size) -> dict[tuple[str, float], list[Setting]]:
    """What there is to choose from for each way and budget."""
    found = {("plain", math.inf): [Setting("plain")]}
    mean = size.steps // size.people
    for epsilon in size.budgets:
        for way in NAMES:
            if way in ("central", "hidden"):
                found[way, epsilon] = [Setting(way, epsilon)]
            elif way != "plain":
                found[way, epsilon] = [Setting(way, epsilon, mean * c) for c in size.shares]
    return found


# ---- noise


def least(meets: Callable[[float], bool], digits: int = 4) -> float:
    """The least noise of so many digits that meets a guarantee, by bisection.

    The upper end is always one that meets it.
    """
    low = high = 1.0
    while not meets(high):
        low, high = high, 2 * high
    while low == high or meets(low):
        low, high = low / 2, low
    while round_up(low, digits) < round_up(high, digits) and high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return round_up(high, digits)


def least_sigma(setting: Setting, people: int, steps: int, size: int, digits: int = 4) -> float:
    """The least noise of so many digits that is proven to meet the budget; the paper's its own."""
    if setting.way == "plain":
        return 0.0
    if setting.way == "paper":
        return paper_sigma(people, setting.cap or steps // people, setting.epsilon, digits)

    def meets(sigma: float) -> bool:
        learner = setting.make(sigma, 1e-3, 0, steps)
        return learner.guarantee((people, size)).delta(setting.epsilon) <= DELTA

    return least(meets, digits)


def paper_sigma(people: int, contributions: int, epsilon: float, digits: int = 4) -> float:
    """The noise that the paper's Lemma 1 asks for, in units of L.

    The lemma does not hold as printed. Its Rényi divergence of order α is 4αL²·ln(n)/(σ²n) for each
    contribution, for orders with σ ≥ L·√(2α(α − 1)).
    """

    def guaranteed(sigma: float) -> float:
        each = 4 * contributions * math.log(people) / (sigma**2 * people)
        free = 1 + math.sqrt(math.log(1 / DELTA) / each)
        order = min(free, (1 + math.sqrt(1 + 2 * sigma**2)) / 2)
        return each * order + math.log(1 / DELTA) / (order - 1)

    return least(lambda sigma: guaranteed(sigma) <= epsilon, digits)


# ---- training


@dataclass(frozen=True)
class Chosen:
    """A setting that was chosen, with its noise, what is proven of it, and what the runs found."""

    setting: Setting
    sigma: float
    speed: float
    proven: float
    objective: np.ndarray[Any, np.dtype[np.float64]]
    """One row for each run, one column for each milestone."""
    accuracy: np.ndarray[Any, np.dtype[np.float64]]


@lru_cache(maxsize=2)
def _houses(people: int) -> Houses:
    return houses(people)


def _tune(size: Size, kept: dict[str, Any]) -> None:
    """Choose noise, step size and cap of each way and budget by the loss of separate walks."""
    data = _houses(size.people)
    if "sigma" not in kept:
        numbers = data.records.shape[2]
        every = [one for some in settings(size).values() for one in some]
        kept["sigma"] = {
            one.key: least_sigma(one, size.people, size.steps, numbers, size.digits)
            for one in every
        }
        tell("noise: " + ", ".join(f"{key}: {value:g}" for key, value in kept["sigma"].items()))
    ways = settings(size)
    tried = [
        (way, one, speed) for way, some in ways.items() for one in some for speed in size.speeds
    ]
    contenders = [one.contender(kept["sigma"][one.key], speed) for _, one, speed in tried]
    found = tuned(data, contenders, size.steps, size.tuning, _TUNING_SEED).mean(axis=1)
    kept["chosen"] = {}
    for way in ways:
        loss, at = min((loss, at) for at, loss in enumerate(found) if tried[at][0] == way)
        _, one, speed = tried[at]
        kept["chosen"][_name(*way)] = {"key": one.key, "speed": speed, "loss": float(loss)}
        tell(f"{one.key}: learning rate {speed:g}, loss {loss:.4f}")


def _name(way: str, epsilon: float) -> str:
    return f"{way} {epsilon:g}"


def trained(size: Size) -> dict[tuple[str, float], Chosen]:
    """All ways and budgets, each run kept as soon as it is done."""
    path = size.state / "results.json"
    kept: dict[str, Any] = load(path)
    if "chosen" not in kept:
        _tune(size, kept)
        save(path, kept)
    runs: dict[str, list[Any]] = kept.setdefault("runs", {})
    proven: dict[str, float | None] = kept.setdefault("proven", {})
    found: dict[tuple[str, float], Chosen] = {}
    for place, (way, some) in enumerate(settings(size).items()):
        name = _name(*way)
        choice = kept["chosen"][name]
        setting = next(one for one in some if one.key == choice["key"])
        sigma, speed = kept["sigma"][setting.key], choice["speed"]
        make = partial(setting.make, sigma, speed, steps=size.steps)
        done = runs.setdefault(name, [])
        while len(done) < size.runs and not size.saved:
            # No two trainings share a seed, so that all are independent of one another.
            learner = make(seed=1000 * (place + 1) + len(done))
            done.append(_run(learner, size))
            if name not in proven:
                epsilon = learner.epsilon(DELTA)
                proven[name] = epsilon if math.isfinite(epsilon) else None
            save(path, kept)
            tell(f"{name}, run {len(done)}: loss {done[-1][0][-1]:.4f}, {done[-1][1][-1]:.1%}")
        if done:
            objective, accuracy = np.array(done).transpose(1, 0, 2)
            epsilon = math.inf if proven[name] is None else float(proven[name] or 0)
            found[way] = Chosen(setting, sigma, speed, epsilon, objective, accuracy)
    return found


def _run(learner: SGD, size: Size) -> list[list[float]]:
    """Mean loss on everybody's records and accuracy on unseen ones, at every milestone."""
    data = _houses(size.people)
    objective, accuracy = [], []
    for _ in range(size.milestones):
        learner.partial_fit(data.records, data.labels, size.steps // size.milestones)
        objective.append(learner.loss(*data.flat))
        accuracy.append(learner.score(data.unseen, data.truth))
    return [objective, accuracy]


# ---- what is written


def _with_error(values: Any, scale: float, digits: int) -> str:
    """Mean and its standard error."""
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return f"{scale * mean:.{digits}f} ± {scale * error:.{digits}f}"


def results(size: Size) -> Table:
    """How well each way does in the end, with its settings."""
    found = trained(size)
    rows = [
        [
            NAMES[way],
            "–" if math.isinf(epsilon) else f"{epsilon:g}",
            "none" if math.isinf(epsilon) else f"{one.sigma:g}",
            "∞" if math.isinf(one.proven) else up(one.proven, 3),
            _with_error(one.objective[:, -1], 1, 4),
            _with_error(one.accuracy[:, -1], 100, 2) + " %",
            f"{one.speed:g}",
            "–" if one.setting.cap is None else count(one.setting.cap),
        ]
        for (way, epsilon), one in found.items()
    ]
    low, high = min(size.speeds), max(size.speeds)
    return Table(
        "Learning by a token: houses told apart, by whom is trusted",
        f"{count(size.people)} people hold {POINTS} houses each and train a logistic regression "
        f"without intercept in {count(size.steps)} steps, as in Figure 2 of \"Privacy "
        'Amplification by Decentralization" (Cyffers, Bellet). In every step one person, drawn '
        "uniformly, adds the mean gradient of their houses, which is at most 1 long, and noise of "
        "σ in each coordinate. Numbers are standardised with the mean and the deviation of all "
        "people's records, which is not accounted for, and each record is scaled to length 1. All "
        f"of one person's records are replaced, δ = 10⁻⁶. Means ± standard errors over {size.runs} "
        "runs with seeds of their own, of the last model. *Loss* is the mean over all people's "
        "records, *accuracy* that on a fifth of the houses that nobody holds. *Noise* is the least "
        f"that is proven to meet the budget, rounded up to {size.digits} digits: against whoever "
        "sees every step for a **trusted curator**; against a peer who sees the token whenever it "
        "comes, and the final model, for a **token**, where with a **hidden path** nobody learns "
        "from whom it comes and where it goes, and with a **public path** everybody may; against "
        "everyone for **nobody trusted**. **The paper's noise** is what its Lemma 1 asks for; the "
        "lemma does not hold as printed, and *proven ε* is what does hold of that noise with a "
        "public path. *Cap* is how often one person contributes at most, afterwards noise alone "
        "(or nothing, where nobody is trusted). "
        f"For every way and budget alike, the learning rate, one of {len(size.speeds)} from "
        f"{low:g} to {high:g}, and the cap, where there is one, of "
        f"{', '.join(map(str, size.shares))} times the mean of {size.steps // size.people}, are "
        f"those with the least loss on average over {size.tuning} other walks. That choice is not "
        "accounted for, and no unseen house took part in it. Houses are told apart by longitude, "
        "below or above its mean: the paper's file, number 823 on OpenML, was not at hand, and "
        "this is what the sizes of its two classes point to.",
        ["who is trusted", "budget ε", "noise σ", "proven ε", "loss", "accuracy", "learning rate",
         "cap"],
        rows,
    )  # fmt: skip


def comparisons(size: Size) -> Table:
    """Whether a token with a hidden path differs from the others, by Welch's test."""
    from scipy.stats import ttest_ind

    found = trained(size)
    rows = []
    for epsilon in size.budgets:
        for other in ("central", "public", "paper", "local"):
            row = [NAMES[other], f"{epsilon:g}"]
            for values, scale, digits in (("objective", 1, 4), ("accuracy", 100, 2)):
                ours, theirs = (
                    scale * getattr(found[way, epsilon], values)[:, -1] for way in ("hidden", other)
                )
                test = ttest_ind(ours, theirs, equal_var=False)
                low, high = test.confidence_interval(0.95)
                gap = float(np.mean(ours) - np.mean(theirs))
                unit = " points" if scale == 100 else ""
                row += [
                    f"{gap:+.{digits}f}{unit}", f"{low:+.{digits}f} to {high:+.{digits}f}",
                    f"{test.pvalue:.2g}",
                ]  # fmt: skip
            rows.append(row)
    return Table(
        "Learning by a token with a hidden path, compared",
        "The last model of a token with a hidden path against that of each other way at the same "
        f"budget: differences of means over {size.runs} runs each, 95 % intervals and p-values of "
        "Welch's test, which allows for different variances. Below zero the loss, and above zero "
        "the accuracy, of the token is better. No allowance is made for the number of tests. "
        "The trainings are those of the table before.",
        ["against", "budget ε", "loss", "interval", "p", "accuracy", "interval", "p"],
        rows,
    )


def _figure(values: str, size: Size) -> Drawing:
    found = trained(size)
    steps = [size.steps // size.milestones * (at + 1) for at in range(size.milestones)]
    curves = {way: getattr(one, values) for way, one in found.items()}
    return figures.curves(steps, curves, size.budgets, values)


PIECES: Mapping[str, Callable[[Size], Table | Drawing]] = {
    "token_learning.md": results,
    "token_learning_tests.md": comparisons,
    "token_learning.svg": partial(_figure, "objective"),
    "token_learning_accuracy.svg": partial(_figure, "accuracy"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options of this experiment; the rest are those of every experiment."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", add_help=False)
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--saved", action="store_true")
    own, rest = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        full = replace(FULL, state=own.state, saved=own.saved)
        quick = replace(QUICK, state=Path(scratch))
        return Experiment(MODULE, PIECES, full, quick).main(rest)


if __name__ == "__main__":
    sys.exit(main())
