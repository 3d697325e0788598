"""Bundles and sessions: what the mailbox keeps per put and per sender, not per cell."""

from __future__ import annotations

import random

import pytest

from incrowd.errors import InvalidParameter
from incrowd.live.store import Counts, Parcel
from incrowd.live.store.mailbox import BUNDLE
from incrowd.live.store.seen import SPREAD, Seen
from tests.live.stores import (
    CURATOR,
    OTHER,
    SURVEY,
    cell,
    postgres,
    postgres_url,
    run,
    store,
    where,
)

__all__ = ["postgres", "postgres_url", "run", "store", "where"]


def parcel(counters, recipient=7, session=bytes(16), survey=SURVEY):
    counters = list(counters)
    bodies = [counter.to_bytes(24, "big") for counter in counters]
    return Parcel(survey, recipient, 100.0, [session] * len(counters), counters, bodies)


@pytest.mark.parametrize("seed", range(4))
def test_seen_is_exact_within_its_spread(seed):
    rng, seen, model, top = random.Random(seed), Seen(), set(), 0
    for _ in range(200):
        first = max(0, top + rng.randrange(-300, 300))
        counters = list(range(first, first + rng.randrange(1, 40)))
        if rng.random() < 0.5:
            rng.shuffle(counters)
            counters += counters[:3]
        expected = []
        for counter in counters:
            expected.append(counter not in model)
            model.add(counter)
        assert seen.add(counters) == expected
        top = max(top, *counters)
        seen = Seen.decode(seen.encode())
    assert all((counter in seen) == (counter in model) for counter in range(top + 100))


def test_seen_stays_small():
    seen = Seen()
    assert seen.add(list(range(0, 2 * SPREAD, 2))) == [True] * SPREAD
    assert len(seen.encode()) <= SPREAD // 8 + 9
    assert SPREAD + 1 not in seen
    assert 1 in seen  # too far behind to be known
    assert seen.add([2**64 - 1, 2**64 - 2]) == [True, True]
    assert seen.add([2**64 - 1, 5]) == [False, False]
    assert Seen.decode(seen.encode()).base == seen.base
    in_order = Seen()
    in_order.add(list(range(1000)))
    assert len(in_order.encode()) == 9


def test_a_put_is_a_row_and_so_is_a_session(store, run):
    run("put", [parcel(range(200)), parcel(range(200), 8, b"s" * 16)])
    run("put", [parcel(range(200, 256))])
    rows = store.transact(
        lambda t: [
            t._session.rows(f"SELECT count(*) FROM {table}")[0][0]
            for table in ("bundles", "sessions", "tallies")
        ]
    )
    assert rows == [3, 2, 2]


def test_places_are_consecutive_and_never_used_twice(run):
    seen = set()
    for turn in range(4):
        before = run("head", SURVEY, 7)
        (placed,) = run("put", [parcel(range(10 * turn, 10 * turn + 12))])
        assert placed.fates == [turn == 0] * 2 + [True] * 10
        assert placed.before == before
        found = run("waiting", SURVEY, 7)
        assert [(place, body) for place, body in found] == [
            (placed.first + index, body) for index, body in enumerate(placed.cells)
        ]
        assert run("head", SURVEY, 7) == found[-1][0]
        assert found[0][0] > before
        places = {place for place, _ in found}
        assert not places & seen
        seen |= places
        assert run("took", SURVEY, 7, [place for place, _ in found]) == len(found)
    assert run("head", OTHER, 7) == 0


def test_a_bundle_is_taken_in_parts(run, store):
    run("put", [parcel(range(20))])
    mail = run("waiting", SURVEY, 7)
    places = [place for place, _ in mail]
    assert run("took", SURVEY, 7, [places[3], places[17], places[3]]) == 2
    left = [each for index, each in enumerate(mail) if index not in (3, 17)]
    assert run("waiting", SURVEY, 7) == left
    assert run("waiting", SURVEY, 7, places[15], 3) == [mail[16], mail[18], mail[19]]
    assert run("took", SURVEY, 7, [*places, places[-1] + 1, places[0] + BUNDLE]) == 18
    assert run("took", SURVEY, 7, places) == 0
    assert run("counts", SURVEY) == Counts(20, 0, 20, 0)
    assert store.transact(lambda t: t._session.rows("SELECT count(*) FROM bundles")) == [(0,)]


def test_several_take_at_once_and_only_their_own(run):
    run("put", [parcel(range(5)), parcel(range(5), 8, b"s" * 16)])
    mine, theirs = (
        [place for place, _ in run("waiting", SURVEY, recipient)] for recipient in (7, 8)
    )
    assert run("take", []) == 0
    assert run("take", [((SURVEY, 7), theirs), ((OTHER, 8), theirs), ((SURVEY, 9), mine)]) == 0
    assert run("take", [((SURVEY, 7), [*mine, *theirs]), ((SURVEY, 8), theirs[1:])]) == 9
    assert run("backlog", SURVEY) == {8: 1}


def test_what_finds_no_room_is_as_new_later(run, store):
    def put(counters):
        return store.transact(lambda t: t.put([parcel(counters)], lambda parcel: 5))[0]

    assert put(range(4)).fates == [True] * 4
    # The known ones are there already, so they need no room.
    placed = put([0, 4, 5, 6, 3])
    assert placed.fates == [False, True, None, None, False]
    assert run("backlog", SURVEY) == {7: 5}
    run("took", SURVEY, 7, [place for place, _ in run("waiting", SURVEY, 7)])
    assert put([4, 5, 6]).fates == [False, True, True]
    assert run("counts", SURVEY) == Counts(7, 2, 5, 0)


def test_backlog(run):
    assert run("backlog", SURVEY) == {}
    run("put_cells", [cell(number, recipient=CURATOR) for number in range(5)])
    run("put_cells", [cell(10, recipient=3), cell(11, recipient=4), cell(12, survey=OTHER)])
    run("took", SURVEY, 4, [place for place, _ in run("waiting", SURVEY, 4)])
    assert run("backlog", SURVEY) == {3: 1, CURATOR: 5}
    run("expire", 1e9)
    assert run("backlog", SURVEY) == {}


def test_what_is_no_parcel_is_refused(run):
    good = parcel(range(3))
    for bad, words in (
        (good._replace(survey=b""), "surveys of 16"),
        (good._replace(sessions=[b"short"] * 3), "sessions of 16"),
        (good._replace(counters=[1]), "a counter for each"),
        (parcel(range(BUNDLE + 1)), "between 1 and"),
        (good._replace(cells=[b"a", b"b", b"longer"]), "one size"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            run("put", [good, bad])
    assert run("counts", None) == Counts(0, 0, 0, 0)


def test_cells_of_several_sizes_and_times_stay_in_order(run):
    rows = [
        cell(number, expires=expires, body=bytes([number]) * size)
        for number, (size, expires) in enumerate([(3, 9.0), (3, 9.0), (4, 9.0), (3, 8.0), (0, 8.0)])
    ]
    assert run("put_cells", rows) == [True] * 5
    assert [body for _, body in run("waiting", SURVEY, 7)] == [row.body for row in rows]
    assert run("expire", 8.5) == 2
    assert [body for _, body in run("waiting", SURVEY, 7)] == [row.body for row in rows[:3]]


def test_a_bundle_that_lies_is_found(store, run):
    run("put", [parcel(range(8))])
    change = "UPDATE bundles SET taken = ?"
    store.transact(lambda t: t._session.run(change, (b"\1",)))
    assert "bundle 1" in store.integrity()[0]
    store.transact(lambda t: t._session.run(change, (b"\0",)))
