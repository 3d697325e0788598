"""Running a protocol: actors for a population, and a conclusion from what was collected.

Every execution ends in :func:`conclude`: the estimate, and the guarantees of what really happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, NotProven
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols import capabilities
from incrowd.protocols.api import Cost, Protocol
from incrowd.protocols.registry import plugin_of
from incrowd.protocols.runtime.actor import Address, Maker, NullSealer, Sealer, device
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.randomness import Seeds
from incrowd.tasks.base import Answer, Collected, Task


@dataclass(frozen=True)
class Refined:
    """The answer after some of the rounds, and the protocol as if no more had been planned."""

    rounds: int
    result: Answer
    protocol: Protocol


@dataclass(frozen=True)
class Run:
    """Outcome of a protocol, with the guarantees that cover it."""

    result: Answer
    guarantees: tuple[Guarantee, ...]
    cost: Cost
    collected: Collected
    seed: int | None
    refined: tuple[Refined, ...]
    """Answers after fewer rounds, where a protocol has them."""

    def __repr__(self) -> str:
        return f"Run({self.result!r}, seed = {self.seed}, {len(self.guarantees)} guarantees)"

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


def simulate(
    protocol: Protocol, values: NDArray[Any], task: Task | None = None, seed: int | None = None
) -> Run:
    """Encode, collect and conclude for a population in memory."""
    asked = resolve_task(protocol, task)
    ready, seeds = capabilities.bound_to(protocol, asked), Seeds(seed)
    return conclude(ready, ready.collect(asked.encode(values), seeds), asked, seeds.root)


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
    if isinstance(protocol, capabilities.SampleCorrected):
        collected = protocol.corrected(collected)
    happened = protocol.conditional_on(collected)
    return Run(
        result=task.estimate(collected, protocol.randomizer),
        guarantees=guarantees(happened),
        cost=happened.cost(),
        collected=collected,
        seed=seed,
        refined=tuple(_refined(protocol, collected, task)),
    )


def _refined(protocol: Protocol, collected: Collected, task: Task) -> Iterator[Refined]:
    """The answers after 1, 2, 5, 10, 20 … of the rounds, from the first that has one.

    Beside each stands the protocol as it had been run if only these rounds had been planned: a run
    that was stopped there states all of its planned rounds.
    """
    if not isinstance(protocol, capabilities.Anytime):
        return
    held = len(collected.rounds)
    steps = sorted({held, *(m * 10**e for e in range(len(str(held))) for m in (1, 2, 5))})
    for rounds in steps:
        so_far = collected.first(rounds)
        if rounds <= held and so_far.received:
            planned = protocol.with_rounds(rounds).conditional_on(so_far)
            yield Refined(rounds, task.estimate(so_far, protocol.randomizer), planned)
