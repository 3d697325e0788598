"""One party of a scrambled query at a time: what it does, what it refuses, and what it knows."""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec
import numpy as np
import pytest
from scipy import stats

from incrowd.errors import InvalidParameter
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Done, Message, NullSealer, Send, device
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import Receipt
from incrowd.protocols.scrambled_query import ScrambledQuery, messages, topology
from incrowd.protocols.scrambled_query.roles.scrambler import added
from incrowd.protocols.scrambled_query.topology import Places
from incrowd.randomness import Seeds
from incrowd.tasks.query import Column, Query
from tests.protocols.contract import throw_at
from tests.protocols.sealing import sealers
from tests.sim.query_played import (
    PARCEL,
    SETS,
    TIMING,
    Desk,
    Queried,
    own,
    patients,
    tuples,
    without,
)

N = 12
REPORT = msgspec.msgpack.Decoder(wire.Report)


def made(protocol, address, sealer=None, value=None, seed=1):
    """One party."""
    person = address.rpartition("/")[2] if address.startswith("device") else None
    if person is not None and value is None:
        value = tuples(protocol)[int(person) : int(person) + 1]
    generator = partial(Seeds(seed).generator, address)
    context = ActorContext(
        generator=generator, value=value, sealer=sealer or NullSealer(), timing=TIMING
    )
    return protocol.actor(address, context)


def tell(actor, sender, message, now=1.0):
    return actor.receive(Message(sender, wire.encode(message)), now)


def sends(effects, to=None):
    return [each for each in effects if isinstance(each, Send) and to in (None, each.to)]


def report(protocol, person, target=0, size=None):
    """A message of somebody to their scrambler, without a tuple in it."""
    form = messages.RecordFormat(protocol.asked)
    payload = messages.post(target, bytes(form.nbytes if size is None else size))
    return wire.Report(0, bytes([person]) * 16, payload)


# Where everybody is.


def test_topology_addresses_every_party_once():
    protocol = ScrambledQuery(n=20, targets=3, sources=7, standby_scramblers=2, query=SETS)
    everyone = Places.of(protocol)
    assert everyone.targets == (3, 3, 1)
    assert (everyone.groups, everyone.clusters, everyone.first) == (3, 9, (0, 3, 6, 7))
    assert protocol.helpers == (
        *(f"scrambler/{each}" for each in range(9)),
        *("spare/0", "spare/1"),
        *(f"compute/{each}" for each in range(7)),
        CURATOR,
    )
    assert everyone.members(4) == [1, 4, 7, 10, 13, 16, 19]
    assert protocol.contacts(4) == (
        "scrambler/1", "scrambler/4", "scrambler/7", "spare/0", "spare/1",
    )  # fmt: skip
    for index in range(3):
        for target in range(everyone.targets[index]):
            node = everyone.node_of(everyone.compute(index, target))
            assert everyone.target_of(node) == (index, target)
    for group in range(3):
        members = np.flatnonzero(topology.group_of(20, 3) == group).tolist()
        assert members == everyone.members(group)
        assert len(members) <= 7


def test_topology_with_one_set_each_assigns_one_scrambler():
    for n in (5, 20, 41):
        protocol = ScrambledQuery(n=n, targets=3, sources=4, sets_per_person="one", query=SETS)
        everyone = Places.of(protocol)
        found = Counter(
            person for cluster in range(everyone.clusters) for person in everyone.members(cluster)
        )
        assert found == dict.fromkeys(range(n), 1)
        drawn = topology.set_of(n, everyone.groups, 3)
        for person in range(n):
            assert everyone.sets(person) == (drawn[person],)
            assert len(protocol.contacts(person)) == 1
        most = max(len(everyone.members(cluster)) for cluster in range(everyone.clusters))
        assert most <= 4


def test_topology_in_local_mode_contacts_compute_nodes():
    protocol = ScrambledQuery(n=20, targets=3, hiding="local", dummies=1, query=SETS)
    assert protocol.helpers == (*(f"compute/{each}" for each in range(7)), CURATOR)
    assert protocol.contacts(5) == protocol.helpers[:-1]


@pytest.mark.parametrize(
    "address", ["scrambler/2", "spare/1", "compute/3", "device/12", "shuffler", "scrambler/01"]
)
def test_make_actor_rejects_unknown_address(address):
    with pytest.raises(InvalidParameter, match="no part in this query"):
        made(own(), address, value=tuples(own())[:1])


def test_source_without_tuple_refuses_to_start():
    source = own().actor(device(1), ActorContext(generator=Seeds(1).generator))
    with pytest.raises(InvalidParameter, match="its owner's value"):
        source.start(0.0)


def test_deadlines_are_increasing():
    until = topology.deadlines(TIMING)
    order = [until.people, until.scramblers, until.replaced, until.spares, until.compute]
    order += [until.counted, until.result]
    assert order == sorted(set(order))
    assert own().duration(TIMING) == until.result


# A source.


def test_source_messages_have_equal_size_and_show_only_target():
    protocol = ScrambledQuery(n=20, targets=4, redirect_probability=0.5, sources=20, query=SETS)
    values = patients(20)
    found = sealers(protocol)
    sizes, real = set(), Counter()
    form = messages.RecordFormat(SETS)
    for person in range(20):
        actor = made(protocol, device(person), found[device(person)], values[person : person + 1])
        posts = sends(actor.start(0.0))
        assert [each.to for each in posts] == ["scrambler/0", "scrambler/1", "scrambler/2"]
        for index, post in enumerate(posts):
            sizes.add(len(post.body))
            target, sealed = messages.posted(REPORT.decode(post.body).payload)
            address = Places.of(protocol).compute(index, target)
            record = found[address].open(sealed)
            assert len(record) == form.nbytes
            for other in found.keys() - {address}:
                with pytest.raises(ValueError, match="not sealed"):
                    found[other].open(sealed)
            real[record[0]] += 1
    assert len(sizes) == 1
    assert real[0] > 5
    assert real[1] > 5


def test_source_sends_tuple_to_true_target_or_dummy():
    """Real if and only if the drawn target is its own; what fails WHERE is a dummy anywhere."""
    protocol = ScrambledQuery(n=60, targets=4, redirect_probability=0.6, sources=60, query=SETS)
    values = patients(60)
    matches = SETS.matches(values)
    assert 5 < (~matches).sum() < 50
    anywhere = Counter()
    for person in range(60):
        mine = values[person : person + 1]
        for index, post in enumerate(sends(made(protocol, device(person), value=mine).start(0.0))):
            grouping, targets = SETS.sets[index], protocol.set_targets[index]
            target, record = messages.posted(REPORT.decode(post.body).payload)
            cell = grouping.cell_of(mine)
            true = int(grouping.target_of(cell, targets)[0])
            due = matches[person] and target == true
            assert record[0] == due
            first, last = grouping.edges(targets)[target : target + 2]
            found, measured = messages.RecordFormat(SETS).tuples([record], int(first), int(last))
            assert found.tolist() == ([int(cell[0])] if due else [])
            if due:
                assert measured.tolist() == SETS.measured(mine).tolist()
            elif index == 0 and not matches[person]:
                anywhere[target] += 1
    assert len(anywhere) == 4


def test_source_repeats_same_bytes_until_answered():
    actor = made(own(), device(3))
    (first,) = sends(actor.start(0.0))
    (again,) = sends(actor.wake(1.0))
    assert again == first
    state = actor.state()
    copy = made(own(), device(3), seed=2)
    copy.resume(state)
    assert sends(copy.wake(3.0)) == [first]
    id_ = REPORT.decode(first.body).id
    for stranger in (device(1), "scrambler/0", "compute/0", CURATOR):
        assert tell(actor, stranger, wire.Accepted(0, id_)) == []
    assert tell(actor, first.to, wire.Accepted(0, bytes(16))) == []
    assert tell(actor, first.to, wire.Accepted(0, id_)) == [Done(Receipt((0,), ()))]
    assert tell(actor, first.to, wire.Accepted(0, id_)) == []


def test_source_diverts_to_one_spare_only():
    actor = made(own(standby_scramblers=2), device(3))
    (first,) = sends(actor.start(0.0))
    tell(actor, first.to, wire.Refused(0, REPORT.decode(first.body).id))
    state = actor.state()
    for nonsense in (messages.Divert(1, 0), messages.Divert(0, 2)):
        assert tell(actor, CURATOR, nonsense) == []
    assert tell(actor, "scrambler/1", messages.Divert(0, 1)) == []
    assert actor.state() == state
    told = sends(tell(actor, CURATOR, messages.Divert(0, 1)))
    assert told == [
        Send("spare/1", first.body), Send(CURATOR, wire.encode(messages.Diverted(0, 1))),
    ]  # fmt: skip
    assert tell(actor, CURATOR, messages.Divert(0, 0)) == []
    assert sends(tell(actor, CURATOR, messages.Divert(0, 1))) == told[1:]
    (done,) = tell(actor, "spare/1", wire.Accepted(0, REPORT.decode(first.body).id))
    assert done == Done(Receipt((0,), ()))


def test_source_in_local_mode_sends_to_distinct_nodes_in_random_order():
    protocol = own(
        N, hiding="local", sources=0, standby_scramblers=0, dummies=1, redirect_probability=0.3
    )
    first, real = Counter(), Counter()
    rng = np.random.default_rng(1)
    context = ActorContext(generator=lambda *_: rng, value=tuples(protocol)[:1], timing=TIMING)
    for _ in range(1200):
        posts = sends(protocol.actor(device(0), context).start(0.0))
        assert len(posts) == len({each.to for each in posts}) == 2
        first[posts[0].to] += 1
        for place, each in enumerate(posts):
            if REPORT.decode(each.body).payload[0]:
                assert each.to == "compute/0"
                real[place] += 1
    # The tuple is first or second equally often, and arrives with the chance 1 − σ + σ/T.
    assert stats.binomtest(real[0], real.total(), 0.5).pvalue > 1e-4
    assert stats.binomtest(real.total(), 1200, protocol.redirect(0).kept).pvalue > 1e-4
    # Its own target is among the two unless both the drawn one and the other are not.
    own_first = (protocol.redirect(0).kept + protocol.redirect(0).drawn_probability / 3) / 2
    due = 1200 * np.array([own_first, (1 - own_first) / 2, (1 - own_first) / 2])
    assert stats.chisquare([first[f"compute/{each}"] for each in range(3)], due).pvalue > 1e-4


# A scrambler.


def _collected(protocol, sealer=None, people=range(0, N, 2), now=1.0):
    """A scrambler that has heard of these people and asked for its grant."""
    actor = made(protocol, "scrambler/0", sealer)
    actor.start(0.0)
    effects = []
    for person in people:
        effects = tell(actor, device(person), report(protocol, person, person % 3), now)
    return actor, effects


def test_scrambler_sends_messages_and_dummies_then_forgets():
    protocol = own()
    actor, effects = _collected(protocol)
    (ask,) = sends(effects, CURATOR)
    assert ask.body == wire.encode(messages.Ask(0, 6))
    assert sends(tell(actor, device(0), report(protocol, 0)), CURATOR) == []
    for nonsense in (messages.Granted(1), messages.Lost(1), messages.Take(0), messages.Take(1)):
        assert sends(tell(actor, CURATOR, nonsense), "compute/0") == []
    released = tell(actor, CURATOR, messages.Granted(0))
    parcels = sends(released)
    assert [each.to for each in parcels] == ["compute/0", "compute/1", "compute/2"]
    counts = [len(PARCEL.decode(each.body).records) for each in parcels]
    assert sum(counts) == 6 + 4
    assert min(counts) >= 2
    copy = made(protocol, "scrambler/0")
    copy.resume(actor.state())
    assert sends(copy.wake(1e2)) == parcels
    for each in parcels:
        assert tell(actor, each.to, messages.Stored(1)) == []
        effects = tell(actor, each.to, messages.Stored(0))
    assert effects == [Done()]
    _, cluster, intake, held, outbox = msgspec.msgpack.decode(actor.state(), strict=False)
    assert (cluster, held, outbox[0]) == (0, [], {})
    assert intake[1][0][1] == {}
    # Whoever repeats a message is answered as before.
    (answer,) = sends(tell(actor, device(0), report(protocol, 0)))
    assert answer == Send(device(0), wire.encode(wire.Accepted(0, bytes(16))))


def test_scrambler_sends_nothing_before_grant_and_forgets_when_lost():
    protocol = own()
    actor, _ = _collected(protocol)
    assert all(each.to == CURATOR for each in sends(actor.wake(50.0)))
    assert tell(actor, CURATOR, messages.Lost(0)) == [Done()]
    assert tell(actor, CURATOR, messages.Granted(0)) == []
    _, _, intake, held, outbox = msgspec.msgpack.decode(actor.state(), strict=False)
    assert (held, intake[1][0][1], outbox[0]) == ([], {}, {})


def test_scrambler_refuses_late_message_and_replaces_sender():
    protocol = own()
    actor, effects = _collected(protocol, people=range(0, 8, 2))
    assert sends(effects, CURATOR) == []
    (ask,) = sends(actor.wake(TIMING.timeout))
    assert ask.body == wire.encode(messages.Ask(0, 4))
    (answer,) = sends(tell(actor, device(8), report(protocol, 8), TIMING.timeout + 1))
    assert answer.body == wire.encode(wire.Refused(0, bytes([8]) * 16))
    parcels = sends(tell(actor, CURATOR, messages.Granted(0), TIMING.timeout + 2))
    assert sum(len(PARCEL.decode(each.body).records) for each in parcels) == 10


@pytest.mark.parametrize(
    ("person", "options"),
    [(1, {}), (N, {}), (0, {"target": 3}), (0, {"size": 3}), (0, {"size": 100}), (0, {"size": 0})],
)
def test_scrambler_ignores_message_of_unusual_size_or_target(person, options):
    protocol = own()
    actor = made(protocol, "scrambler/0")
    actor.start(0.0)
    state = actor.state()
    assert tell(actor, device(person), report(protocol, person, **options)) == []
    assert tell(actor, "compute/0", report(protocol, 0)) == []
    assert tell(actor, device(0), wire.Report(1, bytes(16), bytes(25))) == []
    assert actor.state() == state


def test_scrambler_cannot_read_sealed_records():
    """Nothing that it ever holds or sends has a tuple in it, or who sent what once it is asked."""
    protocol = own(n=10, sources=5)
    found = sealers(protocol)
    form = messages.RecordFormat(protocol.asked)
    seen: list[bytes] = []
    opened: list[bytes] = []

    class Marking:
        """Writes down what is sealed, and by whom."""

        def __init__(self, inner):
            self.inner = inner

        def seal(self, to, plain):
            opened.append(plain)
            return self.inner.seal(to, plain)

        def open(self, sealed):
            return self.inner.open(sealed)

    marked = {each: Marking(sealer) for each, sealer in found.items()}
    queried = Queried(protocol, 1, sealers=marked)
    assert queried.found.folded[0].count.tolist() == [1] * 10
    for address in ("scrambler/0", "scrambler/1"):
        seen += [each.body for each in queried.told[address]]
        seen += [each.body for each in queried.said[address]]
        seen.append(queried.last[address].state())
    plain = [record for record in opened if record[0] == 1]
    assert len(plain) == 10
    assert not any(record[1:] in body for record in plain for body in seen)
    for address in ("scrambler/0", "scrambler/1"):
        with pytest.raises(ValueError, match="not sealed"):
            found[address].open(found[device(0)].seal("compute/0", bytes(form.nbytes)))


def test_parcels_are_in_random_order():
    """Where somebody's record stands says nothing about who they are."""
    protocol = own(n=6, targets=1, sources=6, dummies=0, standby_scramblers=0)
    places_ = np.zeros((6, 6))
    for seed in range(300):
        actor = made(protocol, "scrambler/0", seed=seed)
        actor.start(0.0)
        for person in range(6):
            payload = messages.post(0, bytes([person]).ljust(21, b"\0"))
            tell(actor, device(person), wire.Report(0, bytes([person]) * 16, payload))
        (parcel,) = sends(tell(actor, CURATOR, messages.Granted(0)))
        for place, record in enumerate(PARCEL.decode(parcel.body).records):
            places_[record[0], place] += 1
    assert stats.chisquare(places_.ravel()).pvalue > 1e-4


def test_added_messages_follow_stated_law():
    rng = np.random.default_rng(1)
    held = np.array([4, 0, 1])
    found = np.array([np.bincount(added(3, held, 8, 4, False, rng), minlength=3)
                      for _ in range(4000)])  # fmt: skip
    assert set(found.sum(axis=1)) == {3 + 4}
    for target in range(3):
        due = 4000 * stats.binom.pmf(np.arange(8), 7, 1 / 3)
        seen = np.bincount(found[:, target], minlength=8)
        ends = np.array([0, 1, 2, 3, 4, 5])
        assert stats.chisquare(
            np.add.reduceat(seen, ends), np.add.reduceat(due, ends)
        ).pvalue > 1e-4  # fmt: skip
    assert added(1, np.array([3]), 5, 7, False, rng) == [0, 0]


def test_added_messages_under_cap_never_exceed_sources():
    """By enumeration of all orders, for two targets of which one is nearly full."""
    rng = np.random.default_rng(1)
    held = np.array([3, 1])
    found = Counter(
        tuple(np.bincount(added(2, held, 4, 3, True, rng), minlength=2)) for _ in range(4000)
    )
    # One dummy more fits on the left, so that at least two go to the right; only if all three do
    # is none of the first three drawn to the left.
    assert set(found) == {(1, 2), (0, 3)}
    assert stats.binomtest(found[0, 3], 4000, 1 / 8).pvalue > 1e-4


# A spare.


def test_spare_waits_for_group_and_takes_one():
    protocol = own()
    actor = made(protocol, "spare/0")
    assert actor.start(0.0) == [Done()]
    assert tell(actor, device(0), report(protocol, 0)) == []
    assert tell(actor, CURATOR, messages.Take(2)) == []
    assert tell(actor, CURATOR, messages.Granted(1)) == []
    taken = Send(CURATOR, wire.encode(messages.Taken(1)))
    assert sends(tell(actor, CURATOR, messages.Take(1))) == [taken]
    assert sends(tell(actor, CURATOR, messages.Take(1))) == [taken]
    assert tell(actor, CURATOR, messages.Take(0)) == []
    copy = made(protocol, "spare/0")
    copy.resume(actor.state())
    for person in range(1, N, 2):
        effects = tell(copy, device(person), report(protocol, person))
    (ask,) = sends(effects, CURATOR)
    assert ask.body == wire.encode(messages.Ask(1, 6))


# A compute node.


def _parcel(*records, cluster=0):
    return messages.Parcel(cluster, list(records))


def _record(cell, id_, real=1):
    return bytes([real]) + cell.to_bytes(4, "little") + bytes([id_]) * 16


def _part(protocol, node=0):
    form = messages.FoldedFormat(protocol.asked, 4)

    def read(send):
        return form.unpack(msgspec.msgpack.decode(send.body, type=messages.Part).folded)

    return made(protocol, f"compute/{node}"), read


def test_compute_node_counts_own_real_records_once():
    protocol = own()
    actor, read = _part(protocol)
    actor.start(0.0)
    records = [_record(0, 1), _record(1, 2), _record(1, 2), _record(2, 3, 0), _record(4, 4)]
    records += [_record(3, 5, 7), b"", _record(3, 6)[:-1]]
    (stored,) = sends(tell(actor, "scrambler/0", _parcel(*records)))
    assert stored == Send("scrambler/0", wire.encode(messages.Stored(0)))
    # The first parcel of a group is the one that counts.
    again = sends(tell(actor, "spare/0", _parcel(_record(3, 9))))
    assert again == [Send("spare/0", stored.body)]
    effects = tell(actor, "scrambler/1", _parcel(_record(0, 1), _record(3, 8), cluster=1))
    (arrived,) = sends(effects, CURATOR)
    both = messages.bits([0, 1], 2)
    assert arrived.body == wire.encode(messages.Arrived(both))
    for nonsense in (messages.Fold(b""), messages.Fold(b"\xff"), messages.Safe()):
        assert tell(actor, CURATOR, nonsense) == []
    (part,) = sends(tell(actor, CURATOR, messages.Fold(both)))
    assert read(part).count.tolist() == [1, 1, 0, 1]
    assert tell(actor, CURATOR, messages.Fold(messages.bits([0], 2))) == []
    assert sends(actor.wake(10.0)) == [part]
    # The tuples are gone before the curator has answered, and everything else after.
    assert _record(1, 2) not in actor.state()
    assert tell(actor, CURATOR, messages.Safe()) == [Done()]
    assert part.body not in actor.state()


def test_compute_node_folds_only_counted_groups():
    protocol = own()
    actor, read = _part(protocol)
    actor.start(0.0)
    tell(actor, "scrambler/0", _parcel(_record(0, 1)))
    tell(actor, "scrambler/1", _parcel(_record(1, 2), cluster=1))
    (part,) = sends(tell(actor, CURATOR, messages.Fold(messages.bits([1], 2))))
    assert read(part).count.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("sender", ["scrambler/1", device(0), "compute/1", CURATOR, "spare/1"])
def test_compute_node_takes_parcel_from_scrambler_or_spare_only(sender):
    actor, _ = _part(own())
    actor.start(0.0)
    state = actor.state()
    assert tell(actor, sender, _parcel(_record(0, 1))) == []
    assert tell(actor, "scrambler/0", _parcel(*[_record(0, 1)] * 11)) == []
    assert tell(actor, "scrambler/0", _parcel(_record(0, 1), cluster=2)) == []
    assert actor.state() == state


def test_compute_node_drops_records_that_do_not_open():
    protocol = own()
    found = sealers(protocol)
    actor = made(protocol, "compute/0", found["compute/0"])
    actor.start(0.0)
    mine = found[device(0)].seal("compute/0", _record(0, 1))
    other = found[device(0)].seal("compute/1", _record(1, 2))
    tell(actor, "scrambler/0", _parcel(mine, other, b"junk"))
    tell(actor, "scrambler/1", _parcel(cluster=1))
    (part,) = sends(tell(actor, CURATOR, messages.Fold(messages.bits([0, 1], 2))))
    told = msgspec.msgpack.decode(part.body, type=messages.Part)
    assert messages.FoldedFormat(protocol.asked, 4).unpack(told.folded).count.sum() == 1
    assert np.frombuffer(told.traffic, "<i8").tolist() == [3, 0]


def test_compute_node_drops_impossible_numbers():
    columns = (
        Column(name="place", type="category", values=("a", "b"), complete=True),
        Column(name="free", type="number", complete=True),
        Column(name="whole", type="integer", low=0, high=9, complete=True),
    )
    query = Query(
        sql="SELECT place, SUM(free), SUM(whole) FROM t GROUP BY place", table="t", columns=columns
    )
    form = messages.RecordFormat(query)

    def record(id_, free, whole):
        measured = np.array([(free, whole)], query.measure_dtype)
        return _record(0, id_) + measured.tobytes()

    bad = [record(1, np.nan, 1), record(2, np.inf, 1), record(3, 1.0, 10), record(4, 1.0, -1)]
    cells_, measured = form.tuples([*bad, record(5, 2.5, 9)], 0, 2)
    assert cells_.tolist() == [0]
    assert measured.tolist() == [(2.5, 9)]


def test_part_has_equal_size_for_all_contents():
    protocol = ScrambledQuery(n=20, targets=4, sources=10, query=SETS)
    makers = without(*(device(each) for each in range(3, 20)))
    few = Queried(protocol, 1, change=makers)
    many = Queried(protocol, 1)
    for node in range(9):
        sizes = {
            len(send.body)
            for queried in (few, many)
            for send in queried.said[f"compute/{node}"]
            if msgspec.msgpack.decode(send.body)[0] == "part"
        }
        assert len(sizes) == 1
    form = messages.FoldedFormat(SETS, 2)
    with pytest.raises(ValueError, match="another part"):
        form.unpack(bytes(form.nbytes + 1))


def test_part_with_noise_hides_traffic_from_curator():
    query = Query(
        sql="SELECT sex, COUNT(*), SUM(stay) FROM patients GROUP BY GROUPING SETS ((sex), ())",
        table="patients",
        columns=SETS.columns,
    )
    rng = np.random.default_rng(1)
    rows = [(str(rng.choice(["f", "m"])), str(rng.integers(101))) for _ in range(20)]
    values = query.encode(query.rows(rows))
    for mode in ({"sources": 10}, {"hiding": "local"}):
        protocol = ScrambledQuery(n=20, targets=2, release_epsilon=50.0, query=query, **mode)
        queried = Queried(protocol, 1, values=values)
        found = queried.found
        assert found.traffic == ()
        assert len(found.noise) == 2
        assert all(len(each) == 2 and min(each) > 0 for each in found.noise)
        # ε = 25 per set leaves next to no noise in a count.
        assert abs(found.folded[1].count[0] - 20) <= 2
        for node in range(3):
            told = [
                msgspec.msgpack.decode(send.body) for send in queried.said[f"compute/{node}"]
                if send.to == CURATOR
            ]  # fmt: skip
            assert {each[0] for each in told} <= {"part", "arrived"}
            assert all(each[-1] == b"" for each in told if each[0] == "part")


# The curator.


def test_curator_grants_group_to_one_scrambler_ever():
    protocol = own()
    curator = made(protocol, CURATOR)
    curator.start(0.0)
    until = topology.deadlines(TIMING)
    granted = Send("scrambler/0", wire.encode(messages.Granted(0)))
    assert sends(tell(curator, "scrambler/0", messages.Ask(0, 5))) == [granted]
    for stranger in ("scrambler/1", "compute/0", device(0), "spare/7"):
        assert tell(curator, stranger, messages.Ask(0, 5)) == []
    for nonsense in (messages.Ask(0, 7), messages.Ask(2, 1), messages.Taken(0)):
        assert tell(curator, "scrambler/0", nonsense) == []
    (lost,) = sends(tell(curator, "spare/0", messages.Ask(0, 5)))
    assert lost == Send("spare/0", wire.encode(messages.Lost(0)))
    copy = made(protocol, CURATOR)
    copy.resume(curator.state())
    assert sends(tell(copy, "scrambler/0", messages.Ask(0, 5))) == [granted]
    # The other group goes to the spare, and its scrambler has lost it.
    (take,) = sends(copy.wake(until.replaced))
    assert take == Send("spare/0", wire.encode(messages.Take(1)))
    told = sends(tell(copy, "spare/0", messages.Taken(1), until.replaced))
    assert [each.to for each in told] == [device(each) for each in range(1, N, 2)]
    assert {each.body for each in told} == {wire.encode(messages.Divert(0, 0))}
    (lost,) = sends(tell(copy, "scrambler/1", messages.Ask(1, 6), until.replaced))
    assert lost.body == wire.encode(messages.Lost(1))
    (granted,) = sends(tell(copy, "spare/0", messages.Ask(1, 6), until.replaced))
    assert granted.body == wire.encode(messages.Granted(1))
    assert tell(copy, "spare/0", messages.Taken(1), until.replaced) == []


def test_curator_ignores_impossible_part():
    protocol = own()
    curator = made(protocol, CURATOR)
    curator.start(0.0)
    folded, traffic = bytes(8 * 4), bytes(16)
    assert tell(curator, "compute/0", messages.Part(folded, [], traffic)) == []
    for cluster in range(2):
        tell(curator, f"scrambler/{cluster}", messages.Ask(cluster, 6))
    both = messages.bits([0, 1], 2)
    assert tell(curator, "compute/0", messages.Arrived(b"\x00\x00")) == []
    for node in range(3):
        effects = tell(curator, f"compute/{node}", messages.Arrived(both))
    assert [each.to for each in sends(effects)] == [f"compute/{node}" for node in range(3)]
    for part in (
        messages.Part(folded[1:], [], traffic),
        messages.Part(folded, [1.0], traffic),
        messages.Part(folded, [], traffic[1:]),
    ):
        assert tell(curator, "compute/0", part) == []
    good = messages.Part(folded, [], traffic)
    for node in range(3):
        effects = tell(curator, f"compute/{node}", good)
        assert sends(effects) == [Send(f"compute/{node}", wire.encode(messages.Safe()))]
    (done,) = (each for each in effects if isinstance(each, Done))
    assert done.output.present == (12,)


def test_actors_ignore_arbitrary_bytes():
    mixing = own()
    alone = own(hiding="local", sources=0, standby_scramblers=0, dummies=1)
    for protocol in (mixing, alone):
        senders = [*protocol.helpers, device(0), device(1), device(99), "nobody", "scrambler/77"]
        for address in (device(0), *protocol.helpers):
            actor = made(protocol, address)
            actor.start(0.0)
            throw_at(actor, senders)


def test_actors_ignore_messages_of_wrong_senders():
    """Well-formed messages at the wrong door."""
    protocol = own()
    bodies = [
        messages.Ask(0, 1), messages.Granted(0), messages.Lost(0), messages.Take(0),
        messages.Taken(0), messages.Divert(0, 0), messages.Diverted(0, 0), _parcel(),
        messages.Stored(0), messages.Through(0), messages.Noted(0), messages.Arrived(b"\xc0"),
        messages.Fold(b"\xc0"), messages.Part(b"", [], b""), messages.Safe(), report(protocol, 0),
    ]  # fmt: skip
    for address in (device(0), *protocol.helpers):
        actor = made(protocol, address)
        actor.start(0.0)
        state = actor.state()
        for sender in ("nobody", "device/12", "scrambler/2", "spare/1", "compute/3", "hub"):
            for body in bodies:
                assert tell(actor, sender, body) == []
        assert actor.state() == state


# The law.

PLAYS = 600


@pytest.mark.parametrize(
    "options",
    [
        {"sources": 4, "dummies": 2},
        {"sources": 4, "dummies": 2, "hiding": "capped"},
        {"sources": 0, "dummies": 1, "hiding": "local"},
        {"sources": 3, "dummies": 1},
    ],
    ids=["scrambler", "capped", "local", "filled"],
)
def test_played_query_has_law_of_simulated_query(options):
    """How many messages go where, together with how many tuples arrive: a two-sample χ²."""
    n = 4
    protocol = own(n, targets=2, redirect_probability=0.4, standby_scramblers=0, **options)
    values = tuples(protocol)
    samples = []
    for play in (True, False):
        found = Counter()
        for seed in range(PLAYS):
            if play:
                tabulated = (
                    Desk(make_actors(protocol, values, Seeds(seed), timing=TIMING)).run().found
                )
            else:
                tabulated = protocol.collect(values, Seeds(10_000 + seed))
            seen = tabulated.traffic[0].sum(axis=0)
            found[(*map(int, seen), int(tabulated.folded[0].count.sum()))] += 1
        samples.append(found)
    one, other = samples
    common = [key for key in one | other if one[key] + other[key] >= 16]
    table = np.array([[sample[key] for key in common] for sample in samples])
    rest = PLAYS - table.sum(axis=1)
    if rest.sum() >= 16:
        table = np.column_stack([table, rest])
    assert table.shape[1] >= 3
    assert stats.chi2_contingency(table).pvalue > 1e-4
