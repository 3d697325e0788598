"""A whole query at once: who lies, what arrives and is folded, and what an observer counts.

Every message is drawn by the randomizer itself. Lies, what scramblers add and what a release adds
have a stream of random numbers each, per grouping set, so that a result depends on the seed alone.

What scramblers add is drawn for all of them together, in the law in which each draws it alone:

* Messages for who is missing, and dummies, are uniform over the targets: a multinomial.
* With a cap each dummy is uniform over the targets that have fewer messages than there are sources.
  That is the law of uniform draws of which those to full targets are discarded. A batch of as many
  draws as dummies are still missing can be counted without regard to their order, because a target
  takes the first ones until it is full, and the batch cannot bring too many; what it discards is
  drawn again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.protocols.scrambled_query.topology import group_of, set_of
from incrowd.randomness import Seeds
from incrowd.tasks.query import Folded, Tabulated

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

Counts = NDArray[np.int64]

_BLOCK = 1 << 17
"""How many people send at a time, so that what is computed of them stays in the cache."""
_CHOICES = 1 << 22
"""How many random numbers a choice of targets takes at a time, which bounds the memory."""


def collect(protocol: ScrambledQuery, values: NDArray[Any], seeds: Seeds) -> Tabulated:
    """What compute nodes fold and observers count; nobody is absent in memory."""
    query, chosen = protocol.asked, protocol
    people, sets = len(values), len(query.sets)
    groups = replace(protocol, n=people).groups
    answers = set_of(people, groups, sets) if chosen.answers == "one" else None
    folded, noise, traffic, answered = [], [], [], []
    for index, targets in enumerate(protocol.set_targets):
        who = slice(None) if answers is None else answers == index
        sent, found = _sent(protocol, index, values[who], seeds)
        answered.append(len(sent))
        if chosen.release:
            found, added = _released(protocol, found, seeds.generator("release", index))
            noise.append(added)
        else:
            noise.append(())
            rng = seeds.generator("scrambler", index)
            if groups:
                senders = group_of(people, groups)[who]
                traffic.append(_mixed(protocol, sent, senders, groups, targets, rng))
            else:
                traffic.append(_flooded(sent, targets, chosen.dummies, rng))
        folded.append(found)
    present, kept = coverage(protocol, answered)
    return Tabulated(
        rounds=(),
        sent=sum(answered),
        folded=tuple(folded),
        present=present,
        kept=kept,
        noise=tuple(noise),
        traffic=tuple(traffic),
    )


def _sent(
    protocol: ScrambledQuery, index: int, values: NDArray[Any], seeds: Seeds
) -> tuple[Counts, Folded]:
    """Where everybody's message for one grouping set goes, and what of them is folded."""
    query, group, targets = protocol.asked, protocol.asked.sets[index], protocol.set_targets[index]
    redirect, rng = protocol.redirect(index), seeds.generator("lies", index)
    sent = np.empty(len(values), np.int64)
    arrived, measured = [], []
    for begin in range(0, len(values), _BLOCK):
        some = values[begin : begin + _BLOCK]
        cells, among = group.cell_of(some), query.matches(some)
        true = group.target_of(cells, targets)
        drawn = redirect.randomize(true, rng).astype(np.int64)
        # Whose tuple does not count has no target, and draws one from all.
        drawn[~among] = rng.integers(targets, size=int(np.count_nonzero(~among)))
        real = np.flatnonzero(among & (drawn == true))
        arrived.append(cells[real])
        measured.append(query.measured(some.take(real)))
        sent[begin : begin + _BLOCK] = drawn
    cells = np.concatenate(arrived)
    return sent, query.fold(cells, np.concatenate(measured), 0, group.cells)


def coverage(
    protocol: ScrambledQuery, answered: list[int]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The people about whom each grouping set speaks, and the chance that one's tuple is folded.

    Where everyone answers one set, those who answered it are a share of all who answered.
    """
    kept = [protocol.redirect(index).kept for index in range(len(answered))]
    if protocol.answers == "all":
        return tuple(answered), tuple(kept)
    everyone = sum(answered)
    shares = [each / everyone if each else 1.0 for each in answered]
    return (everyone,) * len(kept), tuple(np.multiply(kept, shares).tolist())


def _released(
    protocol: ScrambledQuery, folded: Folded, rng: np.random.Generator
) -> tuple[Folded, tuple[float, ...]]:
    """The same cells with noise, whose ε everyone's grouping sets share."""
    from incrowd.protocols.scrambled_query.release import released

    return released(folded, protocol.asked, protocol.release_per_set, rng)


# What an observer counts.


def _mixed(
    protocol: ScrambledQuery,
    sent: Counts,
    senders: Counts,
    groups: int,
    targets: int,
    rng: np.random.Generator,
) -> Counts:
    """The messages from each scrambler to each compute node."""
    chosen = protocol
    counts = np.bincount(senders * targets + sent, minlength=groups * targets)
    counts = counts.reshape(groups, targets)
    missing = chosen.sources - counts.sum(axis=1)
    counts += _uniform(missing, targets, rng)
    # To one target nothing is to be hidden, and dummies are of no use.
    dummies = np.full(groups, chosen.dummies if targets > 1 else 0)
    if chosen.mode == "capped":
        return _capped(counts, chosen.sources, dummies, rng)
    return counts + _uniform(dummies, targets, rng)


def _uniform(messages: Counts, targets: int, rng: np.random.Generator) -> Counts:
    """So many messages of each scrambler to targets drawn at random."""
    return rng.multinomial(messages, np.full(targets, 1 / targets))


def _capped(counts: Counts, cap: int, dummies: Counts, rng: np.random.Generator) -> Counts:
    """Add dummies to targets that have fewer messages than the cap."""
    counts, left = counts.copy(), dummies.copy()
    if np.any(np.maximum(cap - counts, 0).sum(axis=1) < left):
        raise InvalidParameter(
            f"{int(dummies.max())} dummies do not fit under the cap of {cap} messages to each of "
            f"{counts.shape[1]} compute nodes: lower dummies"
        )
    while (busy := np.flatnonzero(left)).size:
        room = np.maximum(cap - counts[busy], 0)
        free = room > 0
        drawn = rng.multinomial(left[busy], free / free.sum(axis=1, keepdims=True))
        taken = np.minimum(drawn, room)
        counts[busy] += taken
        left[busy] -= taken.sum(axis=1)
    return counts


def _flooded(sent: Counts, targets: int, dummies: int, rng: np.random.Generator) -> Counts:
    """A message of everyone to the target that they drew, and to others, each at most once."""
    found = np.zeros((len(sent), targets), np.int64)
    found[np.arange(len(sent)), sent] = 1
    more = min(dummies, targets - 1)
    if not more:
        return found
    block = max(1, _CHOICES // targets)
    for begin in range(0, len(sent), block):
        some = slice(begin, begin + block)
        order = rng.random(found[some].shape)
        np.put_along_axis(order, sent[some, None], 2.0, axis=1)
        others = np.argpartition(order, more - 1, axis=1)[:, :more]
        np.put_along_axis(found[some], others, 1, axis=1)
    return found
