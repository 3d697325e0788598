"""Solve for the one parameter that was left out, so that a budget is met.

Privacy gets worse as ε0 and the number of rounds grow, and better as the crowd grows; each field of
a description says which (``solve = "max"`` or ``"min"``). The search brackets the answer by
doubling and closes the bracket by interpolation and bisection. It only ever returns a value whose
own ε was computed and found within the budget: should a bound not be monotone, the answer is still
safe, only perhaps not the best one. A search that cannot bracket raises and says how far it looked.
What a protocol can choose by itself is worth something only up to a point: there the search ends
once doubling has long stopped to help.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from incrowd import checks, errors
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Protocol
from incrowd.protocols.settings import Safe, fields_of, settings_type
from incrowd.report.format import round_down, round_up, up

_LARGEST = 2**40
"""How far whole numbers are searched: a crowd or a number of rounds beyond any real one."""
_SMALLEST, _FARTHEST = 2.0**-40, 2.0**10
_RELATIVE = 1e-6
_TINY = 1e-300
LEAST_DELTA = 1e-280
"""No smaller positive δ is stated: below, double precision proves nothing."""
_DIGITS = 7
_PATIENCE = 8
"""How many doublings in a row may change nothing before more is taken not to help."""


@dataclass(frozen=True)
class Unknown:
    """A parameter to solve for: which side is safe, and whether it counts something."""

    name: str
    safe: Safe
    whole: bool
    cap: float | None = None
    """A limit, itself allowed."""
    saturates: bool = False
    """Whether more of it is known to stop helping: what the protocol can choose by itself."""


LOCAL_EPSILON = Unknown(name="local_epsilon", safe="max", whole=False)
"""The ε0 of the randomizer: the larger, the better the answer and the weaker the guarantee."""


@dataclass(frozen=True)
class Goal:
    """The guarantee to be met: this ε at this δ, against this view; no δ at all may be allowed."""

    epsilon: float
    delta: float
    view: str = "curator"
    colluders: Colluders = 0

    def __post_init__(self) -> None:
        """Refuse a goal that is no guarantee."""
        checks.epsilon(self.epsilon)
        if self.delta != 0:
            checks.delta(self.delta)

    def reached(self, protocol: Protocol) -> float:
        """The proven ε of ``protocol`` at the δ of this goal."""
        return protocol.guarantee(self.view, self.colluders).epsilon(self.delta)


def unknowns(kind: type[Protocol]) -> dict[str, Unknown]:
    """Everything that can be solved for: ε0 first, then the protocol's own parameters."""
    found = {LOCAL_EPSILON.name: LOCAL_EPSILON}
    for name, each in fields_of(settings_type(kind)).items():
        if each.solve is not None:
            whole = each.type is int
            found[name] = Unknown(name, each.solve, whole, each.most, bool(each.words))
    return found


def calibrate(
    build: Callable[[float], Protocol], unknown: Unknown, goal: Goal
) -> tuple[float, Protocol]:
    """The best value of ``unknown`` that meets ``goal``, with the protocol that has it.

    ``build`` makes the protocol for one value. The value is the most (``safe = "max"``) or the
    least (``safe = "min"``) that meets the goal: exact for whole numbers, within one part in a
    million and on the safe side for others.
    """
    search = _Search(build, unknown, goal)
    inside, outside = search.bracket()
    if outside is not None:
        inside = search.close(inside, outside)
    value: float = int(inside) if unknown.whole else search.tidy(inside)
    return value, build(value)


def calibrate_delta(guarantee: Guarantee, epsilon: float) -> float:
    """The least δ that can be stated at this ε; raises when it is no probability worth stating.

    It is exactly 0 where the guarantee holds without a δ. A positive δ below
    :data:`LEAST_DELTA` is raised to it.
    """
    delta = guarantee.delta(checks.epsilon(epsilon))
    if not delta < 1:
        raise errors.BudgetInfeasible(
            f"no delta below 1 is proven at epsilon {epsilon:g} against {guarantee.view_name}; "
            "allow a larger epsilon"
        )
    return max(delta, LEAST_DELTA) if delta else 0.0


@dataclass
class _Search:
    """One search: what was tried, and what came out."""

    build: Callable[[float], Protocol]
    unknown: Unknown
    goal: Goal
    trials: dict[float, float] = field(default_factory=dict)
    refusal: errors.IncrowdError | None = None

    def met(self, value: float) -> bool:
        """Whether the guarantee at this value was proven and is within the goal."""
        try:
            protocol = self.build(int(value) if self.unknown.whole else value)
            self.trials[value] = self.goal.reached(protocol)
        except (errors.InvalidCrowd, errors.InvalidEpsilon, errors.NumericalFloor) as error:
            # A value that cannot be had, or whose guarantee cannot be certified, meets no goal.
            self.refusal = error
            self.trials[value] = math.inf
        return self.trials[value] <= self.goal.epsilon

    def bracket(self) -> tuple[float, float | None]:
        """A value that meets the goal and one that does not; none when the last one meets it."""
        unknown = self.unknown
        least = 1.0 if unknown.whole else _SMALLEST
        most = unknown.cap or (float(_LARGEST) if unknown.whole else _FARTHEST)
        better, worse = (least, most) if unknown.safe == "max" else (most, least)
        here = min(1.0, most)
        if self.met(here):
            while here != worse:
                good, here = here, _towards(here, worse)
                if not self.met(here):
                    return good, here
            if unknown.whole and unknown.safe == "min" and self.met(0.0):
                return 0.0, None
            if unknown.safe == "min" or unknown.cap is not None:
                return here, None
            raise errors.BudgetInfeasible(
                f"every {unknown.name} up to {most:g} meets epsilon {self.goal.epsilon:g}: "
                f"set {unknown.name} yourself"
            )
        while here != better:
            bad, here = here, _towards(here, better)
            if self.met(here):
                return here, bad
            if unknown.saturates and self._stale():
                raise self._saturated()
        raise self._infeasible(least, most)

    def close(self, inside: float, outside: float) -> float:
        """The end of the bracket that meets the goal, once the bracket is small enough."""
        whole = self.unknown.whole
        if not whole:
            inside, outside = self._approach(inside, outside)
        while abs(outside - inside) > (1 if whole else _RELATIVE * inside):
            middle = (inside + outside) // 2 if whole else (inside + outside) / 2
            if self.met(middle):
                inside = middle
            else:
                outside = middle
        return inside

    def _approach(self, inside: float, outside: float) -> tuple[float, float]:
        """A much smaller bracket, where the curve is smooth; it takes few trials."""
        from scipy.optimize import brentq  # imported late: it takes longer than many answers

        def gap(value: float) -> float:
            nonlocal inside, outside
            if value not in self.trials:
                if self.met(value):
                    inside = value
                else:
                    outside = value
            # A value that was refused is as far off as can be.
            reached = min(max(self.trials[value], _TINY), sys.float_info.max)
            return math.log(reached) - math.log(self.goal.epsilon)

        step = _RELATIVE / 5
        root = brentq(gap, inside, outside, xtol=_TINY, rtol=step / 2, disp=False)
        for value in (root * (1 - step), root * (1 + step)):
            if min(inside, outside) < value < max(inside, outside):
                gap(value)
        return inside, outside

    def tidy(self, value: float) -> float:
        """The same value in seven digits, to the safe side, where that meets the goal as well."""
        rounded = round_down if self.unknown.safe == "max" else round_up
        short = rounded(value, _DIGITS)
        return short if self.met(short) else value

    def _stale(self) -> bool:
        """Whether the latest doublings all gave the same."""
        latest = list(self.trials.values())[-_PATIENCE - 1 :]
        same = max(latest) <= min(latest) * (1 + _RELATIVE)
        return len(latest) > _PATIENCE and math.isfinite(max(latest)) and same

    def _saturated(self) -> errors.IncrowdError:
        name, goal = self.unknown.name, self.goal
        tried = list(self.trials)[-_PATIENCE - 1 :]
        return errors.BudgetInfeasible(
            f"more {name} would not help against {goal.view}: from {name} = {tried[0]:g} to "
            f"{tried[-1]:g} epsilon stays {up(self.trials[tried[-1]])} at delta {goal.delta:g}, "
            f"not {goal.epsilon:g}; change another parameter"
        )

    def _infeasible(self, least: float, most: float) -> errors.IncrowdError:
        name, goal = self.unknown.name, self.goal
        # Of equally good values the one tried last, which is farthest to the safe side.
        nearest = min(reversed(self.trials), key=self.trials.__getitem__)
        reached = {epsilon for epsilon in self.trials.values() if math.isfinite(epsilon)}
        if len(self.trials) > 1 and len(reached) == 1:
            return errors.BudgetInfeasible(
                f"{name} does not matter against {goal.view}: epsilon is {up(reached.pop())} at "
                f"delta {goal.delta:g} for every {name}, not {goal.epsilon:g}; change another "
                "parameter, or the view"
            )
        if self.refusal is not None and math.isinf(self.trials[nearest]):
            # Nothing could be tried at all: what stood in the way is something else.
            return self.refusal
        return errors.BudgetInfeasible(
            f"no {name} between {least:g} and {most:g} reaches epsilon {goal.epsilon:g} at delta "
            f"{goal.delta:g} against {goal.view}: at {name} = {nearest:g} it is "
            f"{up(self.trials[nearest])}"
        )


def _towards(value: float, limit: float) -> float:
    """Twice or half the value, never past the limit."""
    return min(2 * value, limit) if limit > value else max(value / 2, limit)
