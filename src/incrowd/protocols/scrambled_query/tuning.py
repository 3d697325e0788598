"""Tuning: the sampling, groups and dummies of a query that keep a budget at the least cost.

Sampling loses tuples and dummies cost messages. So the least sampling that the limits allow comes
first, and then the fewest messages. The search rests on these facts (``docs/theory/scrambler.md``):

* more sampling, dummies, and people behind one scrambler never reveal more;
* a dummy hides no less than one more person does, who redirects only now and then. So, with as many
  scramblers, groups are best as small as they can be: n = ⌈S/g⌉ for g scramblers;
* fewer scramblers then mean more people and, for the same load, more dummies behind each, but for
  rounding. So only a few numbers of scramblers are worth trying at the most dummies they may have.

σ is searched among multiples of 1/10,000. Whatever is returned was itself seen to meet the budget.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from functools import lru_cache, partial
from typing import Annotated

import msgspec
import numpy as np

from incrowd import checks
from incrowd.errors import BudgetInfeasible
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.scrambled_query.cost import query_messages
from incrowd.protocols.scrambled_query.plan.model import Answers, aggregate
from incrowd.protocols.scrambled_query.theorems.mechanisms import Scrambler
from incrowd.protocols.settings import refuse, setting
from incrowd.randomizers import Redirect

CONNECTIONS = 1000
"""Default for the connections that a scrambler on a person's device can keep open."""
_STEPS = 10_000
_MOST = 10_000_000  # dummies of one scrambler
_ROUND = 1e-8
"""A share of the budget that is left, so that ε is within it wherever it is rounded up."""
_TINY, _FAR = 1e-300, -20.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the cost of a query."""

    max_messages: Annotated[int | None, setting("messages of the whole query")] = None
    max_connections: Annotated[
        int, setting("connections of one scrambler, to its people and to compute nodes")
    ] = CONNECTIONS
    max_extra_people: Annotated[
        float | None,
        setting("people asked besides, as a share, so that as many tuples arrive as without lies"),
    ] = None


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters that keep the budget, and the ε that they have."""

    redirect_probability: float
    sources: int
    dummies: int
    epsilon: float


def fit(
    targets: Sequence[int],
    people: int,
    *,
    epsilon: float,
    delta: float,
    limits: Limits | None = None,
    sets_per_person: Answers = "all",
    release_epsilon: float = 0.0,
    redirect_probability: float | None = None,
    sources: int | None = None,
    dummies: int | None = None,
) -> Fitted:
    """Find the least sampling, then the fewest messages, that keep (ε, δ) against the network.

    ``targets`` are the compute nodes of each grouping set. Without a limit on messages sampling is
    zero. With ``release_epsilon`` the guarantee is against a view of the result as well. Given
    settings stay; limits are about those left open.
    """
    nodes = tuple(checks.integer(each, "targets", 1) for each in targets)
    crowd, budget = checks.crowd(people, "people"), (checks.epsilon(epsilon), checks.delta(delta))
    asked = _Asked(
        nodes, crowd, *budget, _checked(limits or Limits()), sets_per_person, release_epsilon
    )
    refuse(not nodes, "targets must name the compute nodes of at least one grouping set")
    sampling = redirect_probability
    if sources is None and dummies is None:
        if sampling is None:
            sampling = asked.least_sampling()
        elif asked.nearest(sampling) > 0:
            raise asked.refusal(sampling)
        sources, dummies = asked.least_load(sampling)
    else:
        sources = min(sources or asked.widest, asked.share)
        sampling, dummies = asked.completed(sampling, sources, dummies)
        asked.require(sampling, sources, dummies)
    # The curve was seen to meet δ at the budget, so that the budget is a proven ε as well.
    proven = min(asked.profile(sampling, sources, dummies).epsilon(asked.delta), asked.epsilon)
    return Fitted(redirect_probability=sampling, sources=sources, dummies=dummies, epsilon=proven)


def _checked(limits: Limits) -> Limits:
    checks.integer(limits.max_connections, "max_connections", 1)
    if limits.max_messages is not None:
        checks.integer(limits.max_messages, "max_messages", 0)
    if limits.max_extra_people is not None:
        negative = checks.number(limits.max_extra_people, "max_extra_people") < 0
        refuse(negative, f"max_extra_people must not be negative, got {limits.max_extra_people!r}")
    return limits


@dataclass(frozen=True)
class _Asked:
    targets: tuple[int, ...]
    people: int
    epsilon: float
    delta: float
    limits: Limits
    answers: Answers
    release: float

    def profile(self, sampling: float, sources: int, dummies: int) -> Profile:
        """The curve of these settings, with all grouping sets together."""
        routings = [Scrambler(each, sampling, sources, dummies) for each in self.targets]
        plan = aggregate(
            routings, self.people, sets_per_person=self.answers, release_epsilon=self.release
        )
        return plan.profile(released=self.release > 0)

    def margin(self, sampling: float, sources: int, dummies: int) -> float:
        """At most zero if they were seen to keep the budget; else about ln(δ there/δ)."""
        return _margin(self, sampling, sources, dummies)

    def messages(self, sources: int, dummies: int) -> int:
        return query_messages(self.targets, self.people, sources, dummies, self.answers)

    # Sampling.

    @property
    def most_steps(self) -> int:
        """The most sampling for which enough people can be asked, in steps of σ."""
        if self.limits.max_extra_people is None:
            return _STEPS
        most, steps = self.limits.max_extra_people, range(_STEPS + 1)
        return bisect_right(steps, most, key=lambda each: self.extra_people(each / _STEPS)) - 1

    def extra_people(self, sampling: float) -> float:
        """People asked besides, as a share, so that as many tuples arrive as without sampling."""
        return 1 / Redirect(targets=max(self.targets), redirect_probability=sampling).kept - 1

    def nearest(self, sampling: float) -> float:
        """The margin of the best groups and dummies within the limits, with this sampling."""
        return min((self.margin(sampling, *shape) for shape in self.shapes()), default=math.inf)

    @property
    def feasible(self) -> bool:
        """Whether some settings within the limits keep the budget."""
        return self.nearest(self.most_steps / _STEPS) <= 0

    def least_sampling(self) -> float:
        if self.nearest(0.0) <= 0:
            return 0.0
        if not self.feasible:
            raise self.refusal()
        return _first(lambda steps: self.nearest(steps / _STEPS), 1, self.most_steps) / _STEPS

    def completed(
        self, sampling: float | None, sources: int, dummies: int | None
    ) -> tuple[float, int]:
        """Sampling and dummies for groups of this size, where one of the two may be open."""
        given = sampling or 0.0
        if dummies is None:
            if self.margin(given, sources, _MOST) > 0:
                raise BudgetInfeasible(
                    f"dummies cannot keep epsilon {self.epsilon:g} at delta {self.delta:g} with "
                    f"redirect_probability {given:g} and sources {sources:,}: raise one of them",
                    field="dummies",
                )
            return given, _first(partial(self.margin, given, sources), 0, _MOST)
        if sampling is not None or self.margin(0.0, sources, dummies) <= 0:
            return given, dummies
        steps = _first(lambda each: self.margin(each / _STEPS, sources, dummies), 1, _STEPS)
        return steps / _STEPS, dummies

    def require(self, sampling: float, sources: int, dummies: int) -> None:
        """Refuse settings that do not keep the budget, or that cost more than they may."""
        if self.margin(sampling, sources, dummies) > 0:
            reached = self.profile(sampling, sources, dummies).epsilon(self.delta)
            raise BudgetInfeasible(
                f"epsilon {self.epsilon:g} at delta {self.delta:g} is not kept by "
                f"redirect_probability {sampling:g}, sources {sources:,} and dummies "
                f"{dummies:,}: it is {_up(reached)}",
                field="epsilon",
            )
        costs = {
            "max_messages": self.messages(sources, dummies),
            "max_connections": sources + max(self.targets),
            "max_extra_people": self.extra_people(sampling),
        }
        for name, cost in costs.items():
            most = getattr(self.limits, name)
            if most is not None and cost > most:
                raise BudgetInfeasible(
                    f"{name} would be {cost:,.6g}, above the limit of {most:,.6g}: raise it, or "
                    "leave redirect_probability, sources and dummies out",
                    field=name,
                )

    # Groups and dummies.

    @property
    def share(self) -> int:
        """The people who answer one grouping set."""
        return self.people if self.answers == "all" else -(-self.people // len(self.targets))

    @property
    def hidden(self) -> int:
        """Grouping sets with dummies: those with more than one compute node."""
        return sum(each > 1 for each in self.targets)

    @property
    def fewest(self) -> int:
        """The fewest scramblers for one grouping set."""
        return -(-self.share // self.widest)

    @property
    def widest(self) -> int:
        """The most people that a scrambler can talk to."""
        most = self.limits.max_connections - max(self.targets)
        if most < 1:
            raise BudgetInfeasible(
                f"max_connections must be at least {max(self.targets) + 1}: a scrambler talks to "
                f"{max(self.targets)} compute nodes and to one person or more",
                field="max_connections",
            )
        return most

    def shapes(self) -> Iterator[tuple[int, int]]:
        """Sources and the most dummies, where no fewer scramblers allow as many dummies."""
        if self.limits.max_messages is None:
            yield -(-self.share // self.fewest), _MOST
            return
        groups = np.arange(self.fewest, self.share + 1)
        sources = -(-self.share // groups)
        left = (self.limits.max_messages - self._fixed) // groups - len(self.targets) * sources
        dummies = np.minimum(left // max(1, self.hidden), _MOST)
        best = np.maximum.accumulate(np.concatenate([[-1], dummies[:-1]]))
        for at in np.flatnonzero(dummies > best):
            yield int(sources[at]), int(dummies[at])

    @property
    def _fixed(self) -> int:
        """Messages that scramblers do not send."""
        return self.messages(self.share, 0) - len(self.targets) * self.share

    def least_load(self, sampling: float) -> tuple[int, int]:
        """Sources and dummies of the fewest messages, by more and more scramblers."""
        sets, hidden = len(self.targets), self.hidden
        if not hidden:
            return self._without_dummies(sampling, self.fewest), 0
        room = (
            math.inf if self.limits.max_messages is None else self.limits.max_messages - self._fixed
        )
        found, needed = (0, 0), 0
        for groups in range(self.fewest, self.share + 1):
            # Smaller groups need no fewer dummies than larger ones did.
            if sets * self.share + groups * hidden * needed > room:
                break
            sources = -(-self.share // groups)
            most = _MOST
            if math.isfinite(room):
                most = min(most, (int(room) // groups - sets * sources) // hidden)
            if most < needed or self.margin(sampling, sources, most) > 0:
                continue
            needed = _first(partial(self.margin, sampling, sources), needed, most)
            if needed == 0:
                return self._without_dummies(sampling, groups), 0
            # Only fewer messages than these are of interest from now on.
            room, found = groups * (sets * sources + hidden * needed) - 1, (sources, needed)
        return found

    def _without_dummies(self, sampling: float, groups: int) -> int:
        """The largest groups of those whose sizes leave the fewest places empty."""
        largest = -(-self.share // groups)
        smallest = _first(lambda sources: self.margin(sampling, sources, 0), 1, largest)
        tried = np.arange(groups, -(-self.share // smallest) + 1)
        sizes = -(-self.share // tried)
        return int(sizes[np.argmin(tried * sizes)])

    def refusal(self, sampling: float | None = None) -> BudgetInfeasible:
        """The error where nothing fits: the nearest budget, and the limit in the way."""
        shapes = list(self.shapes())
        if not shapes:
            groups = np.arange(self.fewest, self.share + 1)
            mixed = int((groups * -(-self.share // groups)).min())
            least = self._fixed + len(self.targets) * mixed
            return BudgetInfeasible(
                f"max_messages must be at least {least:,}, the messages without any dummy, "
                f"with {self.limits.max_connections:,} connections",
                field="max_messages",
            )
        most = self.most_steps / _STEPS if sampling is None else sampling
        nearest = min(self.profile(most, *shape).epsilon(self.delta) for shape in shapes)
        told = f"the least epsilon at this delta is {_up(nearest)}; allow that, or"
        if math.isinf(nearest):
            told = "at this delta none is, as some compute node may get no dummy;"
        return BudgetInfeasible(
            f"epsilon {self.epsilon:g} at delta {self.delta:g} cannot be kept within these limits: "
            f"{told} {self._helpful()}",
            field="epsilon",
        )

    def _helpful(self) -> str:
        """Advice: limits each of which can be lifted so that all others may stay."""
        lifted = {
            "max_messages": (self.limits.max_messages, None),
            "max_extra_people": (self.limits.max_extra_people, None),
            "max_connections": (self.limits.max_connections, 10 * self.limits.max_connections),
        }
        found = []
        for name, (now, then) in lifted.items():
            if now is not None and now != then:
                limits = msgspec.structs.replace(self.limits, **{name: then})
                if replace(self, limits=limits).feasible:
                    found.append(f"{name} (now {now:,})")
        return f"raise {' or '.join(found)}" if found else "raise several limits"


@lru_cache(maxsize=1024)
def _margin(asked: _Asked, sampling: float, sources: int, dummies: int) -> float:
    """See :meth:`_Asked.margin`; cheap bounds are tried first."""
    goal, sets = asked.delta, len(asked.targets)
    profiles = [Scrambler(each, sampling, sources, dummies).profile() for each in asked.targets]
    # A set that is too much by itself is too much with others; and guarantees may be added up.
    epsilon = asked.epsilon * (1 - _ROUND)
    found = max(each.delta(epsilon) for each in profiles)
    if found <= goal:
        found = sum(each.delta(epsilon / sets) for each in profiles) * (1 + _ROUND)
        if asked.release or found > goal:
            found = asked.profile(sampling, sources, dummies).delta(epsilon)
    return math.log(max(found, _TINY) / goal)


def _first(margin: Callable[[int], float], low: int, high: int) -> int:
    """The least number from ``low`` on where a falling margin is at most zero, as at ``high``.

    Most numbers that are tried are where a straight line would be zero, once ``high`` is not too
    far off; the others make sure that the search ends soon, be the answer large or small.
    """
    if low >= high or (above := margin(low)) <= 0:
        return min(low, high)
    within, turn = margin(high), 0
    while high - low > 1:
        turn += 1
        if turn % 4 == 0 or within < _FAR:
            middle = math.isqrt((low + 1) * high)
        else:
            middle = low + math.ceil((high - low) * above / (above - within))
        middle = min(max(middle, low + 1), high - 1)
        if (found := margin(middle)) <= 0:
            high, within = middle, found
        else:
            low, above = middle, found
    return high


def _up(value: float) -> str:
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value)):g}"
