"""One party: what it takes in, what it sends, and what a crash leaves of either."""

from __future__ import annotations

from collections import Counter

import pytest

from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.live import cells
from incrowd.live.cells import CAPACITY, CELL, Header
from incrowd.live.chain import Entry
from incrowd.live.journal import Journal
from incrowd.live.links import compare_cell
from incrowd.live.party import Party
from incrowd.live.reasons import Reason
from incrowd.protocols.runtime.actor import CURATOR, Actor, Done, Send, Wake, device
from incrowd.protocols.runtime.cover import Tick
from tests.live.played import SURVEY, Cast, make_keys

ORIGIN = 1.8e9
PEOPLE = 4


class Talker(Actor):
    """Says what it is told to at the start and at each wake, and keeps what it hears."""

    def __init__(self, start=(), wake=()):
        self.effects, self.at_wake, self.heard, self.states = list(start), list(wake), [], 0

    def start(self, now):
        return self.effects

    def receive(self, message, now):
        self.heard.append((message.sender, message.body))
        return []

    def wake(self, now):
        self.heard.append(("clock", str(now).encode()))
        return self.at_wake

    def state(self):
        self.states += 1
        return b"\n".join(sender.encode() + b" " + body for sender, body in self.heard)

    def resume(self, state):
        rows = [row.split(b" ", 1) for row in state.split(b"\n") if row]
        self.heard = [(sender.decode(), body) for sender, body in rows]


@pytest.fixture(scope="module")
def cast(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys")
    make_keys(keys, "shuffle", PEOPLE)
    return Cast(keys, "shuffle", PEOPLE, ORIGIN)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "journal.db") as opened:
        yield opened


def talker(cast, person, *start, wake=(), **options):
    """A party with an actor of its own, and that actor once it is made."""
    actors = []

    def make():
        actors.append(Talker(start, wake))
        return actors[-1]

    party = Party(
        device(person),
        SURVEY,
        make,
        cast.links(device(person)),
        origin=ORIGIN,
        round_seconds=10.0,
        **options,
    )
    return party, actors


def commit(journal, party):
    batch = journal.batch()
    party.changes(batch)
    journal.commit(batch)
    return party.committed(), batch


def said(journal, party):
    """The cells that a party wants to send."""
    return [row.cell for row in commit(journal, party)[0].cells]


def begun(cast, person, *start, **options):
    party, actors = talker(cast, person, *start, **options)
    party.begin(ORIGIN)
    return party, actors[0]


def revived(cast, journal, person):
    party, actors = talker(cast, person)
    (row,) = [row for row in journal.parties() if row.number == person]
    party.resume(row)
    return party, actors[0]


def test_messages_arrive_as_they_were_sent(cast, journal):
    bodies = [b"", b"short", b"x" * 3000, b"y" * (CAPACITY - 14), b"z"]
    sender, _ = begun(cast, 0, *(Send(device(1), body) for body in bodies))
    sent = said(journal, sender)
    assert {len(cell) for cell in sent} == {CELL}
    assert {Header.parse(cell).recipient for cell in sent} == {1}
    receiver, actor = begun(cast, 1)
    receiver.deliver(list(enumerate(reversed(sent))), ORIGIN + 1)
    assert sorted(actor.heard) == sorted((device(0), body) for body in bodies)
    released, _ = commit(journal, receiver)
    assert sorted(released.tokens) == list(range(len(sent)))
    assert (sender.statistics.messages, sender.statistics.cells) == (5, len(sent))
    assert sender.statistics.bytes == sum(map(len, bodies))
    assert receiver.statistics.received == 5


def test_nothing_is_released_before_its_own_commit(cast, journal):
    party, _ = begun(cast, 0, Send(device(1), b"first"))
    batch = journal.batch()
    party.changes(batch)
    other, _ = begun(cast, 1, Send(device(0), b"hello"))
    (cell,) = said(journal, other)
    # This comes while the first commit is under way: it belongs to the next one.
    party.deliver([(7, cell)], ORIGIN)
    with pytest.raises(ProtocolFailed, match="two commits"):
        party.changes(batch)
    journal.commit(batch)
    released = party.committed()
    assert (len(released.cells), released.tokens) == (1, [])
    with pytest.raises(ProtocolFailed, match="nothing"):
        party.committed()
    released, _ = commit(journal, party)
    assert (released.cells, released.tokens) == ([], [7])


def test_a_message_in_parts_is_acknowledged_when_it_is_whole(cast, journal):
    sender, _ = begun(cast, 0, Send(device(1), b"short"), Send(device(1), b"x" * 2000))
    first, *rest = said(journal, sender)
    assert len(rest) == 2
    receiver, _ = begun(cast, 1)
    receiver.deliver([(1, first), (2, rest[0])], ORIGIN)
    assert commit(journal, receiver)[0].tokens == []
    # A crash forgets the parts; the cells come again, under other names.
    receiver, actor = revived(cast, journal, 1)
    assert actor.heard == [(device(0), b"short")]
    receiver.deliver([(4, rest[1]), (5, rest[0]), (5, rest[0]), (6, first)], ORIGIN)
    assert Counter(body for _, body in actor.heard) == {b"short": 2, b"x" * 2000: 1}
    assert sorted(commit(journal, receiver)[0].tokens) == [4, 5, 6]


def test_the_window_of_cells_survives(cast, journal):
    sender, _ = begun(cast, 0, Send(device(1), b"once"))
    (cell,) = said(journal, sender)
    receiver, _ = begun(cast, 1)
    receiver.deliver([(1, cell)], ORIGIN)
    commit(journal, receiver)
    for token in (2, 3):
        receiver, actor = revived(cast, journal, 1)
        receiver.deliver([(token, cell)], ORIGIN)
        assert receiver.statistics.rejected == {Reason.replayed: 1}
        released, batch = commit(journal, receiver)
        assert released.tokens == [token]
        assert not batch
        assert actor.heard == [(device(0), b"once")]


def test_a_call_that_was_not_committed_never_happened(cast, journal):
    sender, _ = begun(cast, 0, Send(device(1), b"again"))
    (cell,) = said(journal, sender)
    receiver, _ = begun(cast, 1)
    commit(journal, receiver)
    receiver.deliver([(1, cell)], ORIGIN)
    receiver, actor = revived(cast, journal, 1)
    assert actor.heard == []
    receiver.deliver([(2, cell)], ORIGIN)
    assert actor.heard == [(device(0), b"again")]
    assert commit(journal, receiver)[0].tokens == [2]


def test_refused_cells_change_nothing_and_do_not_come_again(cast, journal):
    stranger, _ = begun(cast, 0, Send(device(2), b"for somebody else"), Send(device(1), b"me"))
    foreign, good = said(journal, stranger)
    receiver, actor = begun(cast, 1)
    commit(journal, receiver)
    forged = good[:-1] + bytes([good[-1] ^ 1])
    wrong = [foreign, forged, good[:-1], good + b"\0", b"\x09" + good[1:], b""]
    receiver.deliver(list(enumerate(wrong)), ORIGIN)
    released, batch = commit(journal, receiver)
    assert released.tokens == list(range(len(wrong)))
    assert not batch
    assert actor.heard == []
    assert receiver.statistics.rejected == {
        Reason.foreign: 1,
        Reason.forged: 1,
        Reason.malformed: 2,
        Reason.oversized: 1,
        Reason.version: 1,
    }
    receiver.deliver([(99, good)], ORIGIN)
    assert actor.heard == [(device(0), b"me")]


def test_what_finds_no_room_is_left_for_another_attempt(cast, journal):
    bodies = [bytes([number % 256, number // 256]) + b"x" * 1500 for number in range(1025)]
    links = cast.links(device(0))
    beginnings = [cells.pack([(number, body)])[0] for number, body in enumerate(bodies, 1)]
    receiver, actor = begun(cast, 1)
    halves = [links.seal(1, 0, plaintexts[0]) for plaintexts in beginnings]
    receiver.deliver(list(enumerate(halves)), ORIGIN)
    assert receiver.statistics.rejected == {Reason.full: 1}
    assert commit(journal, receiver)[0].tokens == []
    receiver.deliver([(5000, links.seal(1, 0, beginnings[0][1]))], ORIGIN)
    receiver.deliver([(6000, halves[-1]), (7000, links.seal(1, 0, beginnings[-1][1]))], ORIGIN)
    assert [body for _, body in actor.heard] == [bodies[0], bodies[-1]]
    assert sorted(commit(journal, receiver)[0].tokens) == [0, 5000, 6000, 7000]


def test_the_state_is_written_once_per_commit(cast, journal):
    sender, _ = begun(cast, 0, *(Send(device(1), bytes([each])) for each in range(100)))
    extra = [cast.links(device(0)).seal(1, 0, cells.DUMMY) for _ in range(3)]
    sent = said(journal, sender)
    receiver, actor = begun(cast, 1)
    for token, cell in enumerate(sent):
        receiver.deliver([(token, cell)], ORIGIN)
    commit(journal, receiver)
    assert (len(actor.heard), actor.states) == (100, 1)
    # A dummy moves the window of its link, and leaves the actor alone.
    receiver.deliver(list(enumerate(extra)), ORIGIN)
    _, batch = commit(journal, receiver)
    assert [row.state for row in batch.parties] == [None]
    assert actor.states == 1
    receiver.wake(ORIGIN)
    assert not commit(journal, receiver)[1]


def test_what_is_still_under_way_is_not_sent_again(cast, journal):
    again = [Send(device(1), b"same"), Send(device(1), b"x" * 1000), Wake(2.0)]
    party, _ = begun(cast, 0, Wake(1.0), *again, wake=again)
    released, _ = commit(journal, party)
    assert len(released.cells) == 2
    party.wake(ORIGIN + 2)
    assert said(journal, party) == []
    first, second = released.cells
    party.arrived(first.id)
    party.wake(ORIGIN + 4)
    assert said(journal, party) == []
    party.arrived(second.id, Reason.foreign)
    party.wake(ORIGIN + 6)
    resent = said(journal, party)
    assert len(resent) == 2
    assert not {cells.cell_id(cell) for cell in resent} & {cells.cell_id(first.cell)}
    # Rows of cells that arrived go with the next commit.
    assert sorted(row.cell for row in journal.outbox()[SURVEY, 0]) == sorted(resent)
    assert party.statistics.undeliverable == {Reason.foreign: 1}


def test_alarms_follow_the_actor_and_survive(cast, journal):
    party, _ = talker(cast, 0, Wake(5.0), Wake(0.1 + 0.2), wake=[Wake(7.0)])
    assert party.due is None
    party.wake(ORIGIN)
    party.begin(ORIGIN)
    assert party.due == ORIGIN + (0.1 + 0.2)
    commit(journal, party)
    party, actor = revived(cast, journal, 0)
    assert party.due == ORIGIN + (0.1 + 0.2)
    party.wake(ORIGIN + 0.2)
    assert actor.heard == []
    # However the sum is rounded, the actor is not called before its time.
    party.wake(party.due)
    ((_, now),) = actor.heard
    assert float(now) >= 0.1 + 0.2
    assert party.due is None


def test_done_is_kept(cast, journal):
    party, _ = begun(cast, 0, Done({"answer": 42}))
    assert party.output is None
    commit(journal, party)
    assert party.output is not None
    assert revived(cast, journal, 0)[0].output == party.output


def test_before_the_beginning_cells_wait(cast, journal):
    sender, _ = begun(cast, 0, Send(device(1), b"early"))
    sent = said(journal, sender)
    receiver, actors = talker(cast, 1)
    receiver.deliver([(1, sent[0])], ORIGIN - 1)
    released, batch = commit(journal, receiver)
    assert not released.tokens
    assert not batch
    receiver.begin(ORIGIN)
    assert actors[0].heard == [(device(0), b"early")]
    assert commit(journal, receiver)[0].tokens == [1]


def test_the_ledger_line_is_in_the_commit_of_the_first_report(cast, journal):
    party, _ = talker(cast, 0, Send(CURATOR, b"report"))
    entry = Entry(b"o" * 32, SURVEY, b"line")
    party.begin(ORIGIN, entry)
    _, batch = commit(journal, party)
    assert (batch.entries, len(batch.cells), len(batch.parties)) == ([entry], 1, 1)
    party.wake(ORIGIN)
    assert not commit(journal, party)[1].entries


def test_cells_tell_their_round(cast, journal):
    party, _ = begun(cast, 0, Wake(35.0), wake=[Send(device(1), b"late")])
    party.wake(ORIGIN + 35)
    (cell,) = said(journal, party)
    assert Header.parse(cell).round == 3
    early, _ = talker(cast, 0, Send(device(1), b"early"))
    early.begin(ORIGIN - 3)
    assert Header.parse(said(journal, early)[0]).round == 0


def test_compare_cells_go_past_the_links(cast, journal):
    compared = []
    party, _ = talker(cast, 1, compare=compared.append)
    cell = compare_cell(cast.keys[device(0)], SURVEY, 0, 1, b"d" * 32)
    party.post(cell)
    assert said(journal, party) == [cell]
    party.begin(ORIGIN)
    party.deliver([(1, cell)], ORIGIN)
    assert compared == [cell]
    assert commit(journal, party)[0].tokens == [1]
    deaf, _ = begun(cast, 1)
    deaf.deliver([(1, cell)], ORIGIN)
    assert deaf.statistics.rejected == {Reason.malformed: 1}


def test_a_row_of_another_party(cast, journal):
    party, _ = begun(cast, 0)
    commit(journal, party)
    (row,) = journal.parties()
    with pytest.raises(InvalidParameter, match="device/1"):
        talker(cast, 1)[0].resume(row)


# Cover traffic.

PLAN = [
    Tick(0.0, {device(1): 1, device(2): 2}),
    Tick(10.0, {device(1): 3, device(2): 1, CURATOR: 2}),
    Tick(20.0, {device(1): 1}),
]


def shape(sent):
    """All that an onlooker sees of cells."""
    return Counter(
        (header.sender, header.recipient, header.round, len(cell))
        for cell in sent
        for header in [Header.parse(cell)]
    )


@pytest.mark.parametrize(
    "start",
    [
        [],
        [Send(device(1), b"a")],
        [Send(device(2), b"x" * 1500), Send(device(1), b"b"), Send(CURATOR, b"c" * 900)],
        [Send(device(1), bytes([each]) * 700) for each in range(6)],
    ],
)
def test_what_is_sent_depends_on_the_plan_alone(cast, journal, start):
    party, _ = begun(cast, 0, *start, plan=PLAN)
    for tick, planned in enumerate(PLAN):
        if tick:
            assert party.due == ORIGIN + planned.at
            party.wake(ORIGIN + planned.at - 0.001)
            assert said(journal, party) == []
            party.wake(ORIGIN + planned.at)
        assert shape(said(journal, party)) == {
            (0, cells.number(to), tick, CELL): count for to, count in planned.cells.items()
        }
    assert party.due is None
    assert party.statistics.cells == sum(sum(tick.cells.values()) for tick in PLAN)


def test_what_does_not_fit_waits_in_order(cast, journal):
    bodies = [b"one" * 200, b"two" * 600, b"three"]
    party, _ = begun(cast, 0, *(Send(device(1), body) for body in bodies), plan=PLAN)
    receiver, actor = begun(cast, 1)

    def hear(sent):
        mine = [cell for cell in sent if Header.parse(cell).recipient == 1]
        receiver.deliver(list(enumerate(mine)), ORIGIN)
        return [body for _, body in actor.heard]

    assert hear(said(journal, party)) == bodies[:1]
    party.wake(ORIGIN + 10)
    assert hear(said(journal, party)) == bodies
    assert party.statistics.missed == 0
    assert party.statistics.messages == 3


def test_what_waits_survives_a_crash(cast, journal):
    party, _ = begun(cast, 0, Send(device(1), b"x" * 2000), plan=PLAN)
    sent = said(journal, party)
    party, _ = talker(cast, 0, plan=PLAN)
    party.resume(journal.parties()[0])
    assert party.due == ORIGIN + 10
    party.wake(ORIGIN + 10)
    receiver, actor = begun(cast, 1)
    sent += said(journal, party)
    mine = [cell for cell in sent if Header.parse(cell).recipient == 1]
    receiver.deliver(list(enumerate(mine)), ORIGIN + 10)
    assert actor.heard == [(device(0), b"x" * 2000)]


def test_a_retry_of_what_waits_is_no_second_message(cast, journal):
    same = [Send(device(1), b"x" * 2000), Wake(2.0)]
    party, _ = begun(cast, 0, *same, wake=same, plan=PLAN)
    commit(journal, party)
    party.wake(ORIGIN + 2)
    party.wake(ORIGIN + 10)
    assert party.statistics.messages == 1


def test_missed_ticks_are_not_made_up_for(cast, journal):
    party, _ = begun(cast, 0, plan=PLAN)
    commit(journal, party)
    party.wake(ORIGIN + 25)
    assert shape(said(journal, party)) == {(0, 1, 2, CELL): 1}
    assert party.statistics.missed == 1
    party.wake(ORIGIN + 30)
    assert said(journal, party) == []


def test_whom_the_plan_does_not_name(cast):
    party, _ = talker(cast, 0, Send(device(3), b"not in the plan"), plan=PLAN)
    with pytest.raises(ProtocolFailed, match="sends nothing"):
        party.begin(ORIGIN)


def test_a_plan_out_of_order(cast):
    with pytest.raises(InvalidParameter, match="in order of time"):
        talker(cast, 0, plan=PLAN[::-1])
