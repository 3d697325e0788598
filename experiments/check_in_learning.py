"""Learning by shuffled check-in: how well a model reads digits, against what is proven of it.

    export INCROWD_DATA=DIRECTORY
    python -m experiments.check_in_learning [--quick --out DIRECTORY] [--cifar FOLDER]
                                            [--state FOLDER] [--saved]

Two parts, both with 60,000 people who hold one MNIST digit each, δ = 1/60000, replace-one:

* *The paper's training* (Figures 2 and 6 of "Shuffled Check-in: Privacy Amplification towards
  Practical Distributed Learning", Liew, Hasegawa, Takahashi): its network, its noise, its 100,000
  rounds; and what is proven of it, beside what is not.
* *A training that fits the crowd*: a linear model on public features, with everything accounted,
  beside a curator whom everybody trusts and beside nobody trusted.

A full run takes about half an hour of a core, half of it for one seed of the network, which is
why there is one. Whatever is found is kept in ``--state`` (default ``out/check_in_learning``), so
that a run that was killed goes on where it stopped; ``--saved`` writes what has been found so far
and trains nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import incrowd as ic
from experiments import check_in_learning_figures as figures
from experiments import check_in_learning_linear as linear
from experiments.check_in_learning_data import Pictures, cifar, digits, load, save, tell
from experiments.check_in_learning_linear import PEOPLE, Point, Size
from experiments.check_in_learning_network import DigitNetwork
from experiments.common import Drawing, Experiment, Table
from experiments.paper_check_in import paper_optimistic_renyi
from incrowd.privacy import ComposedProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.renyi import renyi_epsilon, shuffled_gaussian_renyi
from incrowd.protocols.check_in.theorems.heterogeneous_rates import RevealedProfile
from incrowd.protocols.check_in.theorems.secure_aggregation import DistributedCheckIn
from incrowd.randomizers.noise import Gaussian, gaussian_delta
from incrowd.report.format import count, down, plain, up

__all__ = ["FULL", "QUICK", "experiment", "main", "network_curves", "network_epsilons"]

MODULE = "experiments.check_in_learning"
STATE = Path(__file__).resolve().parent.parent / "out" / "check_in_learning"

# The paper's training.
RATE, SIGMA, CLIP, SPEED, ROUNDS = 1e-3, 0.86, 0.05, 0.1, 100_000
_ORDERS = tuple(range(2, 65))

FULL = Size(
    people=PEOPLE,
    tests=10_000,
    settings=linear.SETTINGS,
    seeds=5,
    milestones=(100, 200, 500, *range(1000, ROUNDS + 1, 1000)),
    network_seeds=1,
    attacked=(1000, 10_000),
    state=STATE,
)
QUICK = replace(
    FULL,
    people=3000,
    tests=1000,
    settings=tuple(
        replace(each, rounds=min(each.rounds, 10), cells=3)
        for each in FULL.settings
        if each.target in (math.inf, 1)
    ),
    seeds=2,
    milestones=(5, 10),
    network_seeds=2,
    attacked=(),
)


# ---- the paper's network


def _trained(size: Size, seed: int) -> dict[int, float]:
    """Accuracy on unseen digits at every milestone; each is kept, with a checkpoint to go on."""
    path = size.state / f"network-{seed}.json"
    found: dict[str, float] = load(path)
    left = [each for each in size.milestones if str(each) not in found and not size.saved]
    if left:
        pictures = _digits(size.people, size.tests)
        size.state.mkdir(parents=True, exist_ok=True)
        learner = ic.CheckInSGD(
            model=DigitNetwork(), rounds=ROUNDS, rate=RATE, learning_rate=SPEED, clip=CLIP,
            sigma=SIGMA, seed=seed, checkpoint=size.state / f"network-{seed}.npz", every=ROUNDS,
        )  # fmt: skip
        learner.partial_fit(pictures.seen, pictures.labels, rounds=0)
    for milestone in left:
        learner.partial_fit(pictures.seen, pictures.labels, rounds=milestone - learner.rounds_)
        found[str(milestone)] = learner.score(pictures.unseen, pictures.truth)
        save(path, found)
        tell(f"network, seed {seed}: {milestone:,} rounds, {found[str(milestone)]:.1%}")
    return {int(rounds): accuracy for rounds, accuracy in found.items()}


def network_curves(size: Size) -> dict[int, tuple[float, ...]]:
    """The accuracies of all seeds at each milestone that the first of them has reached."""
    seeds = [_trained(size, seed) for seed in range(size.network_seeds)]
    return {
        rounds: tuple(found[rounds] for found in seeds if rounds in found)
        for rounds in size.milestones
        if rounds in seeds[0]
    }


@lru_cache(maxsize=256)
def network_epsilons(rounds: int, people: int = PEOPLE) -> dict[str, float]:
    """What is known of so many rounds of the paper's training, with n people and δ = 1/n.

    ``reports``: proven when the server sees shuffled Gaussian reports. The common part of Gaussian
    reports over a ball of 26,010 dimensions is of the order of e⁻¹⁸⁸, so no blanket is left, and
    what is proven is what holds without a shuffler: each person's own coin and noise.
    ``sums``: proven when only the sum of a round and the number of people arrive.
    ``estimate``: the paper's lower-bound curve. It puts a lower bound where an upper one is needed:
    neither.
    """
    delta = 1 / people
    alone = RevealedProfile(GaussianProfile.replacing(SIGMA), RATE)
    expected = max(1, round(people * RATE))
    # Replacing moves a clipped gradient by up to twice its length: half the noise at distance one.
    shuffled = [0.0, 0.0, *shuffled_gaussian_renyi(_ORDERS, n=expected, sigma=SIGMA / 2)]
    optimistic = rounds * paper_optimistic_renyi(_ORDERS, people, expected, shuffled)
    return {
        "reports": ComposedProfile(((alone, rounds),)).epsilon(delta),
        "sums": DistributedCheckIn(people, RATE, rounds, SIGMA).guarantee().epsilon(delta),
        "estimate": renyi_epsilon(_ORDERS, optimistic, delta),
    }


def _attained(size: Size) -> dict[int, float]:
    """A lower bound of what shuffled reports give away, whatever the accountant.

    One person's ±1 among people who all hold −1, along one line: a real attack on the training.
    """
    path = size.state / "attained.json"
    found: dict[str, float] = load(path)
    epsilon0 = 8.0
    # On a line of length one, so half the noise; ε0 only says which noise that is.
    noise = Gaussian(epsilon=epsilon0, delta=gaussian_delta(epsilon0, SIGMA / 2))
    for rounds in size.attacked:
        if str(rounds) not in found and not size.saved:
            one = blanket_profile(noise, size.people, RATE)
            found[str(rounds)] = ComposedProfile(((one, rounds),)).lower(1 / size.people) or 0.0
            save(path, found)
    return {int(rounds): epsilon for rounds, epsilon in found.items()}


def network_table(size: Size) -> Table:
    """Accuracy and ε over the rounds."""
    found, attained = network_curves(size), _attained(size)
    shown = [r for r in found if r in _SHOWN or r == max(found)] if size.people == PEOPLE else found
    rows = []
    for rounds in shown:
        known = network_epsilons(rounds, size.people)
        rows.append(
            [
                f"{rounds:,}", linear.accuracy(found[rounds]), up(known["sums"], 3),
                # More rounds never give away less.
                down(max((e for r, e in attained.items() if r <= rounds), default=None), 3),
                up(known["reports"], 3), plain(known["estimate"], 3),
            ]
        )  # fmt: skip
    seeds = len(found[min(found)]) if found else 0
    return Table(
        "The paper's network, and what is proven of its training",
        f"{count(size.people)} people hold one MNIST digit each and train the network of the "
        f"paper's Table 3 (26,010 parameters): rate {RATE:g}, gradients clipped to {CLIP:g}, noise "
        f"of {SIGMA:g} times that in each coordinate of each report, learning rate {SPEED:g}; "
        f"δ = 1/{size.people}, one person's record replaced. Accuracy is on "
        f"{count(size.tests)} unseen digits, over {seeds} "
        f"{'seed' if seeds == 1 else 'seeds (mean ± standard deviation)'}. The average of a round "
        "is the same in all columns; they differ in what the server sees. **Sums only**: proven if "
        "it sees no more than each round's sum and number of people, as by secure aggregation "
        "(distributed check-in). **Reports**: proven if it sees every report, in random order. For "
        "Gaussian vectors of this many dimensions no amplification by shuffling is proven, so this "
        "is what everyone's own coin and noise give; it guarantees next to nothing. **At least**: "
        "what an attack on these reports attains in 1,000 and in 10,000 rounds, and so in more. No "
        "accountant can go below it; there it is above what is proven of sums, so a server that "
        "sees reports does learn more. **Estimate**: "
        "the curve that the paper draws as a lower bound. It amplifies, by a theorem that needs an "
        "upper bound, the divergence of one pair of data sets, which is a lower bound; it is "
        "neither, and nothing to rely on.",
        ["rounds", "accuracy", "ε, sums only", "ε, reports, at least", "ε, reports", "estimate"],
        rows,
    )


_SHOWN = (1000, 10_000, 20_000, 30_000, 50_000, 70_000, 100_000)


def network_figure(size: Size) -> Drawing:
    """Accuracy against rounds, and against ε in the three readings."""
    found = network_curves(size)
    # An ε takes some tenths of a second, and late ones hardly differ.
    some = [r for r in found if r <= 10_000 or r % 5000 == 0 or r == max(found)]
    return figures.network(found, {r: network_epsilons(r, size.people) for r in some})


@lru_cache(maxsize=1)
def _digits(people: int, tests: int) -> Pictures:
    return digits().part(people, tests)


# ---- all of it


def experiment(folder: Path | None = None) -> Experiment[Size]:
    """All pieces; with a folder of CIFAR-10 those for its pictures as well."""

    def mnist(size: Size) -> tuple[list[Point], Pictures]:
        data = partial(_digits, size.people, size.tests)
        return linear.points(size, data, "mnist"), data()

    def digits_table(size: Size) -> Table:
        found, data = mnist(size)
        return linear.table(found, data.name, len(data.labels), len(data.truth))

    def digits_figure(size: Size) -> Drawing:
        return figures.trade_off(mnist(size)[0], "MNIST")

    pieces: dict[str, Callable[[Size], Table | Drawing]] = {
        "check_in_learning.md": digits_table,
        "check_in_learning.svg": digits_figure,
        "check_in_learning_network.md": network_table,
        "check_in_learning_network.svg": network_figure,
    }
    if folder is not None:
        colours = cifar(folder)

        def colours_table(size: Size) -> Table:
            found = linear.points(size, lambda: colours, "cifar")
            return linear.table(found, colours.name, len(colours.labels), len(colours.truth))

        def colours_figure(size: Size) -> Drawing:
            return figures.trade_off(linear.points(size, lambda: colours, "cifar"), colours.name)

        pieces["check_in_learning_cifar.md"] = colours_table
        pieces["check_in_learning_cifar.svg"] = colours_figure
    return Experiment(MODULE, pieces, FULL, QUICK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options of this experiment; the rest are those of every experiment."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", add_help=False)
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--saved", action="store_true")
    own, rest = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        chosen = experiment(own.cifar)
        full = replace(FULL, state=own.state, saved=own.saved)
        quick = replace(QUICK, state=Path(scratch))
        return replace(chosen, full=full, quick=quick).main(rest)


if __name__ == "__main__":
    sys.exit(main())
