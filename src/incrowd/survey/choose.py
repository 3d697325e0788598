"""Choice of a randomizer for a question that names none: the one of least error.

Randomizers are compared at one guarantee, not at one ε0: a crowd lets each afford another ε0. To
calibrate all of them would take several times as long, so that the ε0 of each is guessed first, and
only the winner is calibrated. The guess is that of one round behind a trusted shuffler, where

    δ(ε) ≤ (1/n)·E[(G₁ + … + Gₙ)₊]

(``privacy.shuffle``) is approximated at the saddlepoint: the law of G is tilted so that its mean is
zero, and the sum taken as normal there. Everything else that a protocol does, such as rounds or
check-ins, is measured: ε of that round is changed until the protocol proves about what the budget
asks for. Where the view sees through the crowd, ε0 is that of the budget for all of them.

All of this depends on public parameters alone: questions, weights, budget, protocol and the number
of people. Only the choice rests on the approximation; the one chosen is accounted for exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import IncrowdError, InvalidEpsilon
from incrowd.privacy.mechanisms.shuffle import victim_law
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import planned
from incrowd.protocols.expected_error import expected_error
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.law import PairLaw
from incrowd.survey.calibrate import Goal
from incrowd.survey.shares import Draw
from incrowd.tasks.base import Task

_ALIKE = 1.01
"""Errors within this factor count as equal, and the smallest report is taken."""
_MOST = 30.0
"""No randomizer that draws has a larger ε0."""
_STEPS = 12
"""Halvings of the range of ε0, in logarithms: to a part in a thousand."""
_NEAR = 1.1
"""Factor within which the ε that a guess has by the protocol must be that of the budget."""
_TRIALS = 3
_SEEN_THROUGH = 0.999
"""Share of the ε of reports that everyone sees, from which on the crowd does not count."""

Alone = Callable[[int, Randomizer], Protocol]
"""The protocol of one of the questions, by its number, asked alone with this randomizer."""


@dataclass(frozen=True)
class Candidates:
    """A question, its weight, and the randomizers that suit it, each as a function of its ε0."""

    task: Task
    weight: float
    draws: tuple[Draw, ...]
    kinds: tuple[str, ...] = ()
    """Names of the kinds among them."""


def at_epsilon(asked: Candidates, epsilon0: float) -> Draw:
    """Return the candidate of least error at this ε0."""
    return _least(asked, [epsilon0] * len(asked.draws))


def at_budget(
    asked: Sequence[Candidates],
    goal: Goal,
    people: int,
    alone: Alone,
    *,
    cap: float | None = None,
    one: bool = False,
) -> list[Draw]:
    """Return the candidate of least error for each question, at the ε0 that the budget allows.

    Args:
        asked: Questions of the same people.
        goal: Guarantee of all of them together.
        people: Number of people.
        alone: The protocol of each question.
        cap: Largest ε0 of all reports of a person.
        one: Whether each person answers one of the questions.

    """
    several = [number for number, each in enumerate(asked) if len(each.draws) > 1]
    if not several:
        return [each.draws[0] for each in asked]
    first, most = several[0], min(_MOST, cap or _MOST)
    crowd = _crowd(asked[first], goal, people, most, lambda drawn: alone(first, drawn))
    shares = _shares(asked, one=one, hidden=crowd.hides)
    return [
        _least(each, [crowd.guess(draw, share) for draw in each.draws])
        for each, share in zip(asked, shares, strict=True)
    ]


@dataclass(frozen=True)
class _Crowd:
    """One round behind a trusted shuffler, or none where reports are seen with their owners."""

    people: int
    epsilon: float
    delta: float
    most: float
    """Largest ε0."""
    adaptive: bool
    hides: bool = True

    def guess(self, draw: Draw, share: float = 1.0) -> float:
        """Return the largest ε0 that comes down to this share of ε."""
        epsilon = self.epsilon * share
        low, high = math.log(min(epsilon, self.most)), math.log(self.most)
        for _ in range(_STEPS if self.hides else 0):
            middle = (low + high) / 2
            try:
                law = victim_law(draw(math.exp(middle)), self.adaptive)
            except InvalidEpsilon:
                break  # as close to one or to zero as can be drawn
            met = _log_delta(law, self.people, epsilon) <= math.log(self.delta)
            low, high = (middle, high) if met else (low, middle)
        return math.exp(low)


def _crowd(
    asked: Candidates,
    goal: Goal,
    people: int,
    most: float,
    alone: Callable[[Randomizer], Protocol],
) -> _Crowd:
    """The round in which guesses come out as the protocol proves, for one of the questions."""
    found = _Crowd(people, goal.epsilon, goal.delta, most, adaptive=False)
    for _ in range(_TRIALS):
        epsilons = [found.guess(draw) for draw in asked.draws]
        chosen = _least(asked, epsilons)
        try:
            tried = chosen(epsilons[asked.draws.index(chosen)])
            protocol = planned(alone(tried), goal.delta)
            proven, seen = goal.reached(protocol), replace(goal, view="everyone").reached(protocol)
        except IncrowdError:
            return found  # said where the chosen one is accounted for
        found = replace(found, adaptive=getattr(protocol, "adaptive", False))
        ratio = goal.epsilon / proven
        if 1 / _NEAR <= ratio <= _NEAR:
            break
        if proven >= _SEEN_THROUGH * seen:
            found = replace(found, epsilon=tried.epsilon, hides=False)
        found = replace(found, epsilon=found.epsilon * ratio)
    return found


def _shares(asked: Sequence[Candidates], *, one: bool, hidden: bool) -> list[float]:
    """Shares of the questions in ε: behind a crowd squares add up, as for normal noise."""
    if one:
        return [1.0] * len(asked)
    weights = [each.weight for each in asked]
    total = math.hypot(*weights) if hidden else sum(weights)
    return [each / total for each in weights]


def _log_delta(law: PairLaw, crowd: int, epsilon: float) -> float:
    """Logarithm of (1/n)·E[(ΣG)₊], approximated at the saddlepoint; −∞ where no G is positive.

    With K the cumulant generating function of G/max G, and x > 0 where K'(x) = 0, it is about
    e^{nK(x)}·s·E[e^{−λZ}·Z₊] for a normal Z, with s² = n·K''(x)·(max G)² and λ = x·√(n·K''(x)).
    """
    value = law.a - math.exp(epsilon) * law.b
    top = float(value.max())
    if top <= 0:
        return -math.inf
    value /= top
    tilt = _tilt(value, law.mass)
    grown = np.expm1(tilt * value)
    whole = 1 + float(law.mass @ grown)
    spread = math.sqrt(crowd * float((law.mass * value**2) @ (grown + 1)) / whole)
    return crowd * math.log(whole) + math.log(top * spread * _normal_part(tilt * spread) / crowd)


def _tilt(value: NDArray[np.float64], mass: NDArray[np.float64]) -> float:
    """Where Σ mass·value·e^{x·value} = 0: Newton's steps on the log of both signs' ratio."""
    up = value > 0
    gain, loss = value[up], value[~up]
    weight, other = mass[up] * gain, -mass[~up] * loss
    x = 0.0
    for _ in range(50):
        gained, lost = weight * np.exp(x * gain), other * np.exp(x * loss)
        above, below = float(gained.sum()), float(lost.sum())
        slope = float(gained @ gain) / above - float(lost @ loss) / below
        step = math.log(below / above) / slope
        x = max(0.0, x + step)
        if abs(step) <= 1e-9 * (1 + x):
            break
    return x


def _normal_part(rate: float) -> float:
    """E[e^{−λZ}·Z₊] for a standard normal Z."""
    if rate > 30:  # where the difference below loses its digits
        return 1 / (math.sqrt(2 * math.pi) * (rate**2 + 3))
    beyond = math.exp(rate**2 / 2) * math.erfc(rate / math.sqrt(2)) / 2
    return 1 / math.sqrt(2 * math.pi) - rate * beyond


def _least(asked: Candidates, epsilons: Iterable[float]) -> Draw:
    """The candidate of least error, each at its own ε0; of equally good ones the shortest."""
    if len(asked.draws) == 1:
        return asked.draws[0]
    pairs = zip(asked.draws, epsilons, strict=True)
    prices = [_price(asked.task, draw, epsilon) for draw, epsilon in pairs]
    least = min(error for error, _ in prices)
    good = [number for number, (error, _) in enumerate(prices) if error <= _ALIKE * least]
    return asked.draws[min(good, key=lambda number: prices[number][1])]


def _price(task: Task, draw: Draw, epsilon: float) -> tuple[float, int]:
    """Error of the answer from one report of even data, and the size of a report."""
    try:
        made = draw(epsilon)
    except InvalidEpsilon:
        return math.inf, 0
    found = task.noise(made)
    found = expected_error(made, 1) if found is None else found
    return (math.inf if found is None else found), made.report_bytes
