"""Scrambled queries that are played in memory, by the loop of ``sim`` or by a plain one.

Person i holds the number i, and a cell of its own, so that the result says whose tuple was counted,
and how often.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    Done,
    Effect,
    Maker,
    Message,
    Send,
    Wake,
)
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.delivery import Backoff
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query import messages as wired
from incrowd.sim import Faults
from incrowd.tasks.query import Column, Folded, Query, Tabulated
from tests.sim.watched import Change, WatchedPlay

TIMING = Timing(timeout=120.0, backoff=Backoff(cap=8.0))
PATIENTS = (
    Column(
        name="region", type="category", values=("north", "east", "south", "west"), complete=True
    ),
    Column(name="sex", type="category", values=("f", "m"), complete=True),
    Column(name="stay", type="integer", low=0, high=100, complete=True),
    Column(name="score", type="number", low=-1.0, high=1.0, complete=True),
)
SETS = Query(
    sql="SELECT region, sex, COUNT(*), SUM(stay), MAX(stay), AVG(score) FROM patients "
    "WHERE stay < 80 GROUP BY GROUPING SETS ((region, sex), (region), ())",
    table="patients",
    columns=PATIENTS,
)
"""Three grouping sets, of 8, 4 and one cell."""


def numbers(n: int) -> Query:
    """Who is there?"""
    column = Column(name="number", type="integer", low=0, high=n - 1, complete=True)
    return Query(sql="SELECT number, COUNT(*) FROM t GROUP BY number", table="t", columns=(column,))


def patients(n: int, seed: int = 3) -> Any:
    """Encoded tuples for ``SETS``."""
    rng = np.random.default_rng(seed)
    rows = [
        (
            str(rng.choice(PATIENTS[0].values)),
            str(rng.choice(PATIENTS[1].values)),
            str(rng.integers(101)),
            str(rng.uniform(-1, 1)),
        )
        for _ in range(n)
    ]
    return SETS.encode(SETS.rows(rows))


def own(n: int = 12, **parameters: Any) -> ScrambledQuery:
    """Everybody's own number, without lies; by default two groups, three targets and a spare."""
    given = {"targets": 3, "sources": n // 2, "dummies": 4, "standby_scramblers": 1} | parameters
    return ScrambledQuery(n=n, query=numbers(n), **given)


def tuples(protocol: ScrambledQuery) -> Any:
    """What people hold: their own number, or patients."""
    n = protocol.n
    if protocol.asked == SETS:
        return patients(n)
    return protocol.asked.encode(protocol.asked.rows([(str(each),) for each in range(n)]))


def exact(query: Query, values: Any, index: int) -> Folded:
    """A grouping set of these tuples, folded in one place."""
    among = values[query.matches(values)]
    grouping = query.sets[index]
    return query.fold(grouping.cell_of(among), query.measured(among), 0, grouping.cells)


def assert_folded(found: Folded, due: Folded) -> None:
    """The same numbers; those that are not whole in any order of adding."""
    np.testing.assert_array_equal(found.count, due.count)
    for name in ("total", "least", "most", "spread"):
        for one, other in zip(getattr(found, name), getattr(due, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            assert one.dtype == other.dtype


def check(protocol: ScrambledQuery, found: Tabulated, n: int) -> int:
    """What must hold whatever happens, of a query for everybody's number without lies.

    Nobody counts twice. A group counts as a whole: in all cells that are known there is exactly
    everybody of whom it is said that they were there. Every scrambler of a group that counts has
    sent as many messages as were guaranteed.
    """
    (folded,), (present,), (lost,) = found.folded, found.present, found.lost
    assert folded.count.max() <= 1
    assert folded.count.sum() <= present <= n
    chosen = protocol
    if len(lost):
        assert folded.count[lost].sum() == 0
    elif chosen.hiding != "local":
        # Who has no scrambler is there as soon as one of their messages arrived.
        assert folded.count.sum() == present
    if chosen.hiding != "local" and not len(lost):
        sent = found.traffic[0].sum(axis=1)
        whole = chosen.sources + (chosen.dummies if protocol.set_targets[0] > 1 else 0)
        assert set(sent.tolist()) <= {0, whole}
        assert sent.any() or not present
    return present


def without(*gone: Address) -> Change:
    """These are not there."""
    return lambda makers: {each: make for each, make in makers.items() if each not in gone}


class Queried(WatchedPlay):
    """A query that was played by ``sim``, with what everybody was told and said."""

    def __init__(
        self,
        protocol: ScrambledQuery,
        seed: int,
        faults: Faults | None = None,
        change: Change = lambda makers: makers,
        values: Any = None,
        sealers: Mapping[Address, Any] | None = None,
    ) -> None:
        told = tuples(protocol) if values is None else values
        super().__init__(protocol, told, TIMING, seed, faults, change, sealers)

    def bodies(self, address: Address, kind: type) -> set[tuple[str, Any]]:
        """The different messages of a kind that somebody sent, with whom they went to."""
        decoder = msgspec.msgpack.Decoder(kind)
        found = set()
        for send in self.said[address]:
            if msgspec.msgpack.decode(send.body)[0] == kind.__struct_config__.tag:
                found.add((send.to, decoder.decode(send.body)))
        return found


class Desk:
    """A plain loop without a network: messages arrive in the order in which they were sent.

    One party may crash in one of its calls: ``before`` it, so that it never happened, or ``after``
    it, when some of what it brought about was done, and is done again after the restart.
    """

    def __init__(
        self,
        makers: Mapping[Address, Maker],
        crash: tuple[Address, int, str] | None = None,
        held: Callable[[Address, Send], bool] = lambda sender, send: False,
    ) -> None:
        """``held``: whether what somebody sends is never delivered."""
        self.makers, self.crash, self.held = makers, crash, held
        self.actors = {address: make() for address, make in makers.items()}
        self.calls: dict[Address, int] = defaultdict(int)
        self.outputs: dict[Address, Any] = {}
        self.alarms: dict[Address, float] = {}
        self.queue: list[tuple[float, int, Address, Message]] = []
        self.order = itertools.count()
        self.now = 0.0

    def run(self, until: float = 0.0) -> Desk:
        """Until the curator is done and it is so late, or nobody has anything left to do."""
        for address in self.actors:
            self.call(address, lambda actor: actor.start(self.now))
        while CURATOR not in self.outputs or self.queue or (self.alarms and self.now < until):
            if self.queue:
                _, _, to, message = heapq.heappop(self.queue)
                self.call(to, lambda actor, m=message: actor.receive(m, self.now))
                continue
            address = min(self.alarms, key=self.alarms.__getitem__)
            self.now = max(self.now, self.alarms.pop(address))
            self.call(address, lambda actor: actor.wake(self.now))
        return self

    def call(self, address: Address, action: Callable[[Actor], list[Effect]]) -> None:
        self.calls[address] += 1
        doomed = self.crash is not None and self.crash[:2] == (address, self.calls[address])
        actor = self.actors[address]
        if doomed and self.crash is not None and self.crash[2] == "before":
            self.rebuild(address, None if self.calls[address] == 1 else actor.state())
            if self.calls[address] == 1:
                self.call(address, action)
            else:
                # Whatever it was told is lost; what it planned to do is not.
                self.alarms.setdefault(address, self.now)
            return
        effects = action(actor)
        if doomed:
            self.do(address, effects[: len(effects) // 2])
            self.rebuild(address, actor.state())
        self.do(address, effects)

    def rebuild(self, address: Address, state: bytes | None) -> None:
        self.actors[address] = self.makers[address]()
        if state is not None:
            self.actors[address].resume(state)

    def do(self, address: Address, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, body):
                    if to in self.actors and not self.held(address, effect):
                        message = Message(address, body)
                        heapq.heappush(self.queue, (self.now, next(self.order), to, message))
                case Wake(at):
                    self.alarms[address] = at
                case Done(output):
                    self.outputs[address] = output

    @property
    def found(self) -> Tabulated:
        return self.outputs[CURATOR]


PARCEL = msgspec.msgpack.Decoder(wired.Parcel)
