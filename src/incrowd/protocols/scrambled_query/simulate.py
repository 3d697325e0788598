"""Simulation of a whole query at once: messages, folded tuples, and observed traffic.

Every message is drawn by the randomizer itself. Redirections, messages that scramblers add and the
noise of a release have a stream of random numbers each, per grouping set, so that a result depends
on the seed alone.

Messages that scramblers add are drawn for all of them together, in the law of each alone:

* Messages for absent people, and dummies, are uniform over the targets: a multinomial.
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
from incrowd.protocols.scrambled_query.release import released
from incrowd.protocols.scrambled_query.topology import group_of, set_of
from incrowd.randomness import Seeds
from incrowd.tasks.query import Folded, Tabulated

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

Counts = NDArray[np.int64]

_BLOCK = 1 << 17  # people who send at a time, so that their numbers stay in the cache
_CHOICES = 1 << 22
"""Random numbers that a choice of targets takes at a time, which bounds the memory."""


def collect(protocol: ScrambledQuery, values: NDArray[Any], seeds: Seeds) -> Tabulated:
    """Return what compute nodes fold and observers count; no one is absent in memory."""
    query, people, sets = protocol.asked, len(values), len(protocol.asked.sets)
    groups = replace(protocol, n=people).groups
    answers = set_of(people, groups, sets) if protocol.sets_per_person == "one" else None
    folded, noise, traffic, answered = [], [], [], []
    for index, targets in enumerate(protocol.set_targets):
        who = slice(None) if answers is None else answers == index
        sent, found = _sent(protocol, index, values[who], seeds)
        answered.append(len(sent))
        added: tuple[float, ...] = ()
        if protocol.release_epsilon:
            # Everyone's grouping sets share the ε of the noise.
            epsilon, rng = protocol.release_per_set, seeds.generator("release", index)
            found, added = released(found, query, epsilon, rng)
        else:
            rng = seeds.generator("scrambler", index)
            if groups:
                senders = group_of(people, groups)[who]
                traffic.append(_mixed(protocol, sent, senders, (groups, targets), rng))
            else:
                traffic.append(_flooded(sent, targets, protocol.dummies, rng))
        noise.append(added)
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
    """The targets of everybody's messages for one grouping set, and the folded tuples."""
    query, group, targets = protocol.asked, protocol.asked.sets[index], protocol.set_targets[index]
    redirect, rng = protocol.redirect(index), seeds.generator("lies", index)
    sent = np.empty(len(values), np.int64)
    arrived, measured = [], []
    for begin in range(0, len(values), _BLOCK):
        some = values[begin : begin + _BLOCK]
        cells, among = group.cell_of(some), query.matches(some)
        true = group.target_of(cells, targets)
        drawn = redirect.randomize(true, rng).astype(np.int64)
        # A tuple that does not count has no target: one is drawn from all.
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
    """Return the people whom each grouping set is about, and the chance that a tuple is folded.

    Where everyone answers one set, those who answered it are a share of all who answered.
    """
    kept = [protocol.redirect(index).kept for index in range(len(answered))]
    if protocol.sets_per_person == "all":
        return tuple(answered), tuple(kept)
    everyone = sum(answered)
    shares = [each / everyone if each else 1.0 for each in answered]
    return (everyone,) * len(kept), tuple(np.multiply(kept, shares).tolist())


def _mixed(
    protocol: ScrambledQuery,
    sent: Counts,
    senders: Counts,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> Counts:
    groups, targets = shape
    counts = np.bincount(senders * targets + sent, minlength=groups * targets).reshape(shape)
    counts += _uniform(protocol.sources - counts.sum(axis=1), targets, rng)
    # To one target nothing is to be hidden, and dummies are of no use.
    dummies = np.full(groups, protocol.dummies if targets > 1 else 0)
    if protocol.hiding == "capped":
        return _capped(counts, protocol.sources, dummies, rng)
    return counts + _uniform(dummies, targets, rng)


def _uniform(messages: Counts, targets: int, rng: np.random.Generator) -> Counts:
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
    """Send a message of everyone to the target that they drew, and to others, each at most once."""
    found = np.zeros((len(sent), targets), np.int64)
    found[np.arange(len(sent)), sent] = 1
    more, block = min(dummies, targets - 1), max(1, _CHOICES // targets)
    for begin in range(0, len(sent) if more else 0, block):
        some = slice(begin, begin + block)
        order = rng.random(found[some].shape)
        np.put_along_axis(order, sent[some, None], 2.0, axis=1)
        others = np.argpartition(order, more - 1, axis=1)[:, :more]
        np.put_along_axis(found[some], others, 1, axis=1)
    return found
