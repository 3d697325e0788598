"""Running a protocol: actors for a population, and a conclusion from what was collected.

Every execution ends in :func:`conclude`: the estimate, and the guarantees of what really happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.display import Displayed
from incrowd.errors import InvalidCrowd, InvalidParameter, NotProven
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols import capabilities
from incrowd.protocols.api import Colluders, Cost, Protocol
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.runtime.actor import Address, Maker, NullSealer, Sealer, device
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.randomness import Seeds
from incrowd.tasks.base import Answer, Collected, Task
from incrowd.tasks.parts import answered

_MOST_STEPS = 5
"""Number of answers after fewer rounds."""


@dataclass(frozen=True)
class Refined:
    """The answer after some of the rounds, and the protocol as if no more had been planned."""

    rounds: int
    result: Answer
    protocol: Protocol


@dataclass(frozen=True, repr=False)
class Run(Displayed):
    """Outcome of a protocol, with the guarantees that cover it."""

    answers: tuple[Answer, ...]
    """The answer to each question."""
    guarantees: tuple[Guarantee, ...]
    cost: Cost
    collected: Collected
    seed: int | None
    refined: tuple[Refined, ...]
    """Answers after fewer rounds, where a protocol has them."""

    @property
    def people(self) -> int:
        """Number of people who took part."""
        return max(each.people for each in self.answers)

    @property
    def result(self) -> Answer:
        """The answer to the only question."""
        if len(self.answers) != 1:
            several = f"there are {len(self.answers)} questions: take one of answers"
            raise InvalidParameter(f"{several}, such as answers[0]")
        return self.answers[0]

    @property
    def interval(self) -> tuple[Any, Any]:
        """The confidence limits of the result."""
        return self.result.low, self.result.high


def resolve_task(protocol: Protocol, task: Task | None) -> Task:
    """The task, checked against the randomizer; by default the natural one of its domain."""
    from incrowd.tasks import natural_task

    if task is None and isinstance(protocol, capabilities.TaskBound):
        task = protocol.default_task()
    asked = natural_task(protocol.randomizer) if task is None else task
    checks.instance(asked, Task, "task", "Mean(bounds=(0, 1))")
    asked.require(protocol.randomizer)
    return asked


def check_crowd(protocol: Protocol, values: NDArray[Any]) -> None:
    """Refuse values of another crowd than the one that was accounted for."""
    any_crowd = not protocol.n and plugin_of(protocol).any_crowd
    if len(values) != protocol.n and not any_crowd:
        raise InvalidCrowd(
            f"{protocol.kind} was set up for n = {protocol.n} people but got "
            f"{len(values)} values: set n to the number of rows"
        )


def guarantees(protocol: Protocol) -> tuple[Guarantee, ...]:
    """The proven bounds that every result states, about answers and then about their order."""
    found: list[Guarantee] = []
    unproven: list[NotProven] = []
    views = plugin_of(protocol).stated_views
    for view in views:
        try:
            found.append(protocol.guarantee(view))
        except NotProven as error:
            unproven.append(error)
    if not found and unproven:
        raise unproven[0]
    if isinstance(protocol, capabilities.OrderPrivate):
        found += [each for view in views if (each := protocol.order_guarantee(view)) is not None]
    return tuple(found)


def guarantees_against(
    protocol: Protocol, view: str, colluders: Colluders = 0
) -> tuple[Guarantee, ...]:
    """The proven bounds against one view: about answers, and about their order if there is one."""
    about = protocol.guarantee(view, colluders)
    if not isinstance(protocol, capabilities.OrderPrivate):
        return (about,)
    order = protocol.order_guarantee(view, colluders)
    return (about,) if order is None else (about, order)


def simulate(
    protocol: Protocol, values: Any, task: Task | None = None, seed: int | None = None
) -> Run:
    """Encode, collect and conclude for a population in memory.

    ``values`` is an array, a list or a column of a frame, one row per person; so may text be.
    """
    asked = resolve_task(protocol, task)
    ready, seeds = capabilities.bound_to(protocol, asked), Seeds(seed)
    return conclude(ready, ready.collect(asked.encode(column_of(values)), seeds), asked, seeds.root)


def column_of(values: Any) -> Any:
    """Return a list, or a column of pandas, polars or Arrow, as an array of its own values.

    A missing value among text stays one: numpy would write it out as the text "None" or "nan".
    """
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_numpy"):
        values = np.asarray(values.to_numpy())
        return values.astype(object) if values.dtype.kind not in "OUfiub" else values
    if isinstance(values, list | tuple) and any(isinstance(each, str) for each in values):
        column = np.empty(len(values), object)
        column[:] = values
        return column
    return values


def make_actors(
    protocol: Protocol,
    values: NDArray[Any],
    seeds: Seeds,
    sealers: Mapping[Address, Sealer] | None = None,
    timing: Timing | None = None,
) -> dict[Address, Maker]:
    """Makers of every participant of one run over these encoded values."""
    check_crowd(protocol, values)
    sealed, when = sealers or {}, timing or Timing()
    makers: dict[Address, Maker] = {}

    def add(address: Address, value: NDArray[Any] | None, *stream: Any) -> None:
        context = ActorContext(
            generator=partial(seeds.generator, *stream),
            value=value,
            sealer=sealed.get(address, NullSealer()),
            timing=when,
        )
        makers[address] = partial(protocol.actor, address, context)

    for person in range(len(values)):
        add(device(person), values[person : person + 1], "device", person)
    for helper in protocol.helpers:
        add(helper, None, helper)
    return makers


def conclude(protocol: Protocol, collected: Collected, task: Task, seed: int | None) -> Run:
    """Estimate, and state the guarantees of what happened."""
    collected = capabilities.corrected(protocol, collected)
    happened = protocol.conditional_on(collected)
    parts = zip(task.parts, answered(collected, protocol.randomizer), strict=True)
    return Run(
        answers=tuple(asked.estimate(*came) for asked, came in parts),
        guarantees=guarantees(happened),
        cost=happened.cost(),
        collected=collected,
        seed=seed,
        refined=tuple(_refined(protocol, collected, task)),
    )


def _refined(protocol: Protocol, collected: Collected, task: Task) -> Iterator[Refined]:
    """The answers after some of 1, 2, 5, 10, 20 … rounds, from the first that has one.

    Beside each stands the protocol as it had been run if only these rounds had been planned: a run
    that was stopped there states all of its planned rounds.
    """
    if not isinstance(protocol, capabilities.Anytime) or len(task.parts) > 1:
        return
    held = len(collected.rounds)
    usual = (m * 10**e for e in range(len(str(held))) for m in (1, 2, 5))
    steps = sorted({held, *(each for each in usual if each <= held)})
    # Each step is accounted for, which may take seconds: a few of them show the way.
    for at in sorted(set(np.linspace(0, len(steps) - 1, _MOST_STEPS).round().astype(int))):
        rounds = steps[at]
        so_far = collected.first(rounds)
        if so_far.received:
            planned = protocol.with_rounds(rounds).conditional_on(so_far)
            yield Refined(rounds, task.estimate(so_far, protocol.randomizer), planned)
