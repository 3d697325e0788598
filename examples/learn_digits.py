"""Learn to read digits from 20,000 people who each keep their own picture.

The pictures are made up: a digit in a font of seven by five dots, some moved, all of them noisy.
The same training runs five times, and differs only in who must be trusted:

    python examples/learn_digits.py

It takes some seconds and needs nothing but incrowd.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import incrowd as ic
from incrowd.tasks.learning import SGD, CentralSGD, LocalSGD, PlainSGD, Softmax

FONT = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""
PEOPLE = 20_000
DELTA = 1e-6


def pictures(people: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pictures of seven by six dots, and the digits that they show."""
    rows = [line.split() for line in FONT.strip().splitlines()]
    glyphs = np.array([[[int(dot) for dot in row[digit]] for row in rows] for digit in range(10)])
    digits, moved = rng.integers(0, 10, people), rng.random(people) < 0.3
    canvas = rng.normal(0.0, 0.3, (people, 7, 6))
    canvas[~moved, :, :5] += glyphs[digits[~moved]]
    canvas[moved, :, 1:] += glyphs[digits[moved]]
    # From [0, 1] or so to [−1, 1], so that dark dots count as much as bright ones.
    return 2 * canvas.reshape(people, -1) - 1, digits


def learners(seed: int) -> dict[str, SGD]:
    """The same training, with less and less to trust.

    A thousand people are in a round: the curator's noise of 16 is that of a thousand times 0.5.
    """
    common: dict[str, Any] = {
        "model": Softmax(classes=10),
        "rounds": 150,
        "rate": 0.05,
        "seed": seed,
    }
    fast = {**common, "learning_rate": 0.5, "clip": 2.0, "average": True}
    slow = {**common, "learning_rate": 0.1, "clip": 2.0, "average": True}
    return {
        "everybody, with everything": PlainSGD(**fast),
        "a curator, with all pictures": CentralSGD(**fast, sigma=16.0),
        "an adder of noisy gradients": ic.CheckInSGD(**fast, sigma=0.5),
        "a shuffler of reports": ic.CheckInSGD(**slow, epsilon0=6.0),
        "nobody": LocalSGD(**slow, epsilon0=6.0),
    }


def main() -> None:
    """Train, and print how well each does at what price."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="the root of all randomness")
    seed = parser.parse_args().seed
    rng = np.random.default_rng(seed)
    images, digits = pictures(PEOPLE, rng)
    unseen, truth = pictures(4_000, rng)
    table = Table(title=f"{PEOPLE:,} people, δ = {DELTA:g}, replace-one neighbours")
    for title in ("who must be trusted", "digits read", "proven ε", "seconds"):
        table.add_column(title, justify="left" if title.startswith("who") else "right")
    for trusted, learner in learners(seed).items():
        begin = time.perf_counter()
        learner.progress = True
        learner.fit(images, digits)
        took = time.perf_counter() - begin
        epsilon = learner.epsilon(DELTA)
        shown = f"{ic.report.round_up(epsilon)}" if math.isfinite(epsilon) else "∞"
        table.add_row(trusted, f"{learner.score(unseen, truth):.1%}", shown, f"{took:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
