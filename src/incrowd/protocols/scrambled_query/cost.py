"""Cost of a scrambled query: messages, channels, and people who must help.

With S people, groups of n, d dummies and T compute nodes for a grouping set, S messages go to
SF = ⌈S/n⌉ scramblers, which send n + d each, and every compute node sends its part of the result:
S + SF·(n + d) + T messages instead of S + T without protection. To a single compute node there is
nothing to hide, and no dummies are added. With hiding local everyone sends d + 1 messages, to
compute nodes that differ. Where everyone answers one of G sets, S/G people answer each.

A tuple arrives with probability p = 1 − σ + σ/T, so that S/p people are needed for S tuples on
average. Where grouping sets have different numbers of compute nodes, the load is that of the most
loaded node, and the consents are those for the set with the greatest loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from incrowd.protocols.api import Cost
from incrowd.protocols.runtime import wire
from incrowd.protocols.scrambled_query.messages import RecordFormat, Through, post
from incrowd.protocols.scrambled_query.plan.model import Answers
from incrowd.protocols.scrambled_query.topology import set_of

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery


def query_messages(
    targets: Sequence[int], people: int, sources: int, dummies: int, answers: Answers = "all"
) -> int:
    """Count the messages of a query through scramblers: to them, from them, and of the results."""
    sets, hidden = len(targets), sum(each > 1 for each in targets)
    share = people if answers == "all" else -(-people // sets)
    asked = people * (sets if answers == "all" else 1)
    groups = -(-share // sources)
    return asked + groups * (sets * sources + hidden * dummies) + sum(targets)


@dataclass(frozen=True)
class Load:
    """The load of one query, over all of its grouping sets, when nothing is lost."""

    messages: int
    """To and from scramblers, or from people to compute nodes, and of the results."""
    baseline: int
    """Messages of the same query, among the same people, without protection."""
    overhead: float
    """Messages as a multiple of the baseline."""
    channels: int
    """Connections between people, scramblers and compute nodes."""
    channels_per_scrambler: int
    messages_per_scrambler: int
    """Received and sent."""
    channels_per_compute_node: int
    """At most: all scramblers of its set, or with hiding local all people, and the curator."""
    messages_per_compute_node: float
    """On average over the compute nodes of a set: received, and the one that it sends."""
    scramblers: int
    compute_nodes: int
    helpers: int
    """Scramblers, those that stand by for them, and compute nodes."""
    tuples: tuple[float, ...] | None
    """Tuples that arrive on average, per grouping set; none where the messages are no tuples."""
    extra_consents: float | None
    """People needed besides, so that as many tuples arrive on average as there are people now."""

    @staticmethod
    def of(protocol: ScrambledQuery) -> Load:
        """The load of a query with these parameters."""
        targets, answering = protocol.set_targets, _answering(protocol)
        groups, scramblers = protocol.groups, protocol.groups * len(targets)
        baseline = sum(answering) + sum(targets)
        tuples, consents = _tuples(protocol, answering)
        if protocol.hiding == "local":
            received = _flooded(protocol, answering)
            messages, channels = sum(received) + sum(targets), sum(received)
            senders, channels_each, messages_each = max(answering), 0, 0
        else:
            mixed = [protocol.sources + (protocol.dummies if nodes > 1 else 0) for nodes in targets]
            received = [groups * each for each in mixed]
            messages = query_messages(
                targets,
                protocol.people,
                protocol.sources,
                protocol.dummies,
                protocol.sets_per_person,
            )
            channels, senders = sum(answering) + groups * sum(targets), groups
            channels_each = protocol.sources + max(targets)
            messages_each = protocol.sources + max(mixed)
        per_node = [each / nodes for each, nodes in zip(received, targets, strict=True)]
        return Load(
            messages=messages,
            baseline=baseline,
            overhead=messages / baseline,
            channels=channels,
            channels_per_scrambler=channels_each,
            messages_per_scrambler=messages_each,
            channels_per_compute_node=senders + 1,
            messages_per_compute_node=1 + max(per_node),
            scramblers=scramblers,
            compute_nodes=sum(targets),
            helpers=scramblers + protocol.standby_scramblers + sum(targets),
            tuples=tuples,
            extra_consents=consents,
        )

    def described(self) -> dict[str, Any]:
        """The same as plain data, with a name that says what each number counts."""
        told = asdict(self) | {"tuples": None if self.tuples is None else list(self.tuples)}
        names = {"messages": "network_load", "tuples": "tuples_expected"}
        return {names.get(name, name): value for name, value in told.items()}


def _answering(protocol: ScrambledQuery) -> list[int]:
    sets = len(protocol.set_targets)
    if protocol.sets_per_person == "all":
        return [protocol.people] * sets
    which = set_of(protocol.people, protocol.groups, sets)
    return [int(each) for each in np.bincount(which, minlength=sets)]


def _flooded(protocol: ScrambledQuery, answering: Sequence[int]) -> list[int]:
    """With hiding local: the messages of each grouping set from people to compute nodes."""
    dummies, pairs = protocol.dummies, zip(answering, protocol.set_targets, strict=True)
    return [people * (1 + min(dummies, nodes - 1)) for people, nodes in pairs]


def _tuples(
    protocol: ScrambledQuery, answering: Sequence[int]
) -> tuple[tuple[float, ...] | None, float | None]:
    """Tuples that arrive of each set on average, and people needed besides for one per person."""
    if protocol.randomizer.domain != "target":
        return None, None
    kept = [protocol.redirect(index).kept for index in range(len(answering))]
    arrive = tuple(people * each for people, each in zip(answering, kept, strict=True))
    people = protocol.people
    return arrive, people / min(kept) - people


def cost_of(protocol: ScrambledQuery) -> Cost:
    """Return the cost per person, and the helpers; the error depends on the query."""
    answering = _answering(protocol)
    # Where only a guarantee is asked for, the target is all that is known of a message.
    query, size = protocol.query, protocol.randomizer.report_bytes
    size = size if query is None else RecordFormat(query).nbytes
    if protocol.hiding == "local":
        flooded = sum(_flooded(protocol, answering))
        # The curator is told when all messages of a set have arrived.
        told = sum(len(wire.encode(Through(index))) * n for index, n in enumerate(answering))
        messages, octets = flooded + sum(answering), flooded * wire.envelope_bytes(size, 1) + told
    else:
        messages = sum(answering)
        octets = messages * wire.envelope_bytes(len(post(0, bytes(size))), 1)
    return Cost(
        rounds=1,
        messages_per_person=messages / protocol.people,
        bytes_per_person=octets / protocol.people,
        extra_people=Load.of(protocol).helpers,
    )
