"""What every store promises, in both databases, and what each adds."""

from __future__ import annotations

import random
import sqlite3
import sys

import pytest

from incrowd.errors import FileUnreadable, InvalidParameter, MissingExtra
from incrowd.live.store import CellRow, ConnectionRow, Counts, open_store
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


def offer(tables, survey=SURVEY, expires=50.0):
    return tables.add_task(survey, b"digest", b"signed", b"roster", None, expires)


def test_registry(run):
    assert run("enrol", "device/1", b"a", 5, b"five", 1.0)
    assert run("enrol", "device/1", b"a", 5, b"five", 2.0)
    assert not run("enrol", "device/1", b"a", 5, b"another five", 2.0)
    assert not run("enrol", "device/1", b"a", 4, b"four", 2.0)
    assert run("record_of", b"a") == b"five"
    assert run("enrol", "device/1", b"a", 6, b"six", 2.0)
    assert run("record_of", b"a") == b"six"
    assert not run("enrol", "device/1", b"b", 9, b"thief", 3.0)
    assert not run("enrol", "device/2", b"a", 9, b"renamed", 3.0)
    assert run("record_of", b"b") is None
    with pytest.raises(InvalidParameter, match="serial"):
        run("enrol", "device/3", b"c", 2**63, b"", 0.0)


def test_a_revoked_identity_loses_name_and_record(run):
    run("enrol", "device/1", b"a", 5, b"five", 1.0)
    run("revoke", b"a", 2.0)
    run("revoke", b"a", 3.0)
    run("revoke", b"never enrolled", 3.0)
    assert run("revoked") == {b"a", b"never enrolled"}
    assert run("record_of", b"a") is None
    assert not run("enrol", "device/1", b"a", 6, b"six", 4.0)
    assert not run("enrol", "device/9", b"never enrolled", 6, b"six", 4.0)
    assert run("enrol", "device/1", b"b", 1, b"heir", 4.0)
    assert run("records") == [("device/1", b"heir")]


def test_records_come_in_the_order_of_names(run):
    names = ["curator", "device/1", "device/10", "device/2", "Ä", "a", "B", "shuffler"]
    for name in names:
        assert run("enrol", name, name.encode(), 1, name.encode(), 0.0)
    in_order = sorted(names, key=str.encode)
    assert [name for name, _ in run("records")] == in_order
    first = run("records", "", 3)
    assert [name for name, _ in first] == in_order[:3]
    assert [name for name, _ in run("records", first[-1][0], 99)] == in_order[3:]


def test_connections_are_kept_until_they_are_over_and_old(run):
    row = ConnectionRow(b"1", b"a", 10.0, 10.0, None)
    run("put_connections", [row, ConnectionRow(b"2", b"b", 11.0, 11.0, None)])
    run("put_connections", [])
    ended = row._replace(heard=14.0, ended=15.0)
    run("put_connections", [ended])
    assert run("connections", 0.0) == [ended, ConnectionRow(b"2", b"b", 11.0, 11.0, None)]
    assert [each.connection for each in run("connections", 15.5)] == [b"2"]
    run("forget_connections", 15.0)
    assert len(run("connections", 0.0)) == 2
    run("forget_connections", 16.0)
    assert [each.connection for each in run("connections", 0.0)] == [b"2"]


def test_connections_left_open_are_forgotten_once_a_later_one_is_old(run):
    left, later = (
        ConnectionRow(each, b"a", at, at, None) for each, at in ((b"1", 1.0), (b"2", 5.0))
    )
    other = ConnectionRow(b"3", b"b", 1.0, 1.0, None)
    run("put_connections", [left, later, other])
    run("forget_connections", 5.0)
    assert len(run("connections", 0.0)) == 3
    run("forget_connections", 6.0)
    assert run("connections", 0.0) == [other, later]


def test_only_a_larger_revocation_list_replaces(run):
    assert run("crl") is None
    assert run("put_crl", b"three", 3)
    assert run("put_crl", b"three", 3)
    assert not run("put_crl", b"other three", 3)
    assert not run("put_crl", b"two", 2)
    assert run("crl") == b"three"
    assert run("put_crl", b"four", 4)
    assert run("crl") == b"four"


def test_task(run):
    big = bytes(range(256)) * 4000
    assert run("task", SURVEY) is None
    assert run("add_task", SURVEY, b"digest", b"signed", big, b"graph", 50.0)
    assert run("add_task", SURVEY, b"digest", b"signed", big, b"graph", 50.0)
    assert not run("add_task", SURVEY, b"other", b"signed", big, b"graph", 50.0)
    assert run("add_task", OTHER, b"second", b"signed", b"", None, 40.0)
    assert run("task", SURVEY) == (b"signed", None, "offered", b"digest", 50.0)
    assert run("tasks") == [
        (OTHER, b"second", "offered", 40.0),
        (SURVEY, b"digest", "offered", 50.0),
    ]
    assert run("blob", SURVEY, "roster") == big
    assert run("blob", SURVEY, "graph") == b"graph"
    assert run("blob", OTHER, "roster") == b""
    assert run("blob", OTHER, "graph") is None
    assert run("blob", b"x" * 16, "graph") is None
    with pytest.raises(InvalidParameter, match="roster"):
        run("blob", SURVEY, "signed")
    with pytest.raises(InvalidParameter, match="16 bytes"):
        run("add_task", b"short", b"digest", b"signed", b"", None, 1.0)


def test_join_start_close(run):
    assert not run("add_join", SURVEY, 4, b"too early")
    run("add_task", SURVEY, b"digest", b"signed", b"roster", None, 50.0)
    assert run("add_join", SURVEY, 4, b"four")
    assert run("add_join", SURVEY, 2, b"two")
    assert run("add_join", SURVEY, 4, b"four")
    assert not run("add_join", SURVEY, 4, b"other four")
    assert run("joins", SURVEY) == [(2, b"two"), (4, b"four")]
    assert run("start_task", SURVEY, b"start")
    assert run("start_task", SURVEY, b"start")
    assert not run("start_task", SURVEY, b"other start")
    assert not run("start_task", OTHER, b"start")
    assert not run("add_join", SURVEY, 5, b"too late")
    assert run("add_join", SURVEY, 4, b"four")
    assert run("task", SURVEY)[1:3] == (b"start", "started")
    run("close_task", SURVEY, 60.0)
    run("close_task", SURVEY, 70.0)
    assert run("task", SURVEY)[1:3] == (b"start", "closed")
    assert run("start_task", SURVEY, b"start")
    assert not run("start_task", SURVEY, b"other start")


def test_a_task_closed_before_its_start_never_starts(run):
    run("add_task", SURVEY, b"digest", b"signed", b"roster", None, 50.0)
    run("close_task", SURVEY, 60.0)
    assert not run("start_task", SURVEY, b"start")
    assert not run("add_join", SURVEY, 1, b"join")


def test_endpoints(run):
    run("announce", SURVEY, 1, "127.0.0.1:1")
    run("announce", SURVEY, CURATOR, "127.0.0.1:2")
    run("announce", SURVEY, 1, "127.0.0.1:3")
    assert run("endpoints", SURVEY) == {1: "127.0.0.1:3", CURATOR: "127.0.0.1:2"}
    assert run("endpoints", OTHER) == {}


def test_a_cell_is_accepted_once(run):
    assert run("put_cells", []) == []
    assert run("put_cells", [cell(1), cell(2), cell(1)]) == [True, True, False]
    assert run("put_cells", [cell(2, body=b"forged"), cell(3)]) == [False, True]
    assert run("put_cells", [cell(1, survey=OTHER)]) == [True]
    found = run("waiting", SURVEY, 7)
    assert [body for _, body in found] == [cell(number).body for number in (1, 2, 3)]
    assert run("took", SURVEY, 7, [seq for seq, _ in found]) == 3
    assert run("put_cells", [cell(1), cell(3)]) == [False, False]
    assert run("counts", SURVEY) == Counts(3, 0, 3, 0)
    assert run("counts", None) == Counts(4, 1, 3, 0)
    assert run("counts", b"x" * 16) == Counts(0, 0, 0, 0)


def test_a_malformed_batch_is_refused_whole(run):
    with pytest.raises(InvalidParameter, match="24"):
        run("put_cells", [cell(1), CellRow(SURVEY, b"short", 0, 1.0, b"")])
    assert run("counts", None) == Counts(0, 0, 0, 0)


def test_mail_comes_in_order_and_in_pages(run):
    for start in (0, 50):
        run("put_cells", [cell(start + n, recipient=CURATOR) for n in range(50)])
    run("put_cells", [cell(1000, recipient=1)])
    after, got = 0, []
    while page := run("waiting", SURVEY, CURATOR, after, 33):
        after = page[-1][0]
        got += [body for _, body in page]
    assert got == [cell(number).body for number in range(100)]
    assert len(run("waiting", SURVEY, 1)) == 1


def test_nobody_takes_the_mail_of_others(run):
    run("put_cells", [cell(1, recipient=1), cell(2, recipient=2)])
    ((seq, _),) = run("waiting", SURVEY, 1)
    assert run("took", SURVEY, 2, [seq]) == 0
    assert run("took", OTHER, 1, [seq]) == 0
    assert run("took", SURVEY, 1, []) == 0
    assert run("took", SURVEY, 1, [seq, seq, seq + 1000]) == 1
    assert run("took", SURVEY, 1, [seq]) == 0
    assert run("counts", SURVEY) == Counts(2, 1, 1, 0)


def test_expiry(run):
    run("put_cells", [cell(1, expires=10.0), cell(2, expires=20.0), cell(3, expires=30.0)])
    run("put_cells", [cell(4, expires=float("inf"), survey=OTHER)])
    ((seq, _), *_) = run("waiting", SURVEY, 7)
    run("took", SURVEY, 7, [seq])
    assert run("expire", 20.0) == 1
    assert run("expire", 20.0) == 0
    assert run("counts", SURVEY) == Counts(3, 1, 1, 1)
    assert run("put_cells", [cell(2)]) == [False]
    run("add_task", OTHER, b"digest", b"signed", b"roster", None, 50.0)
    assert run("expire", 25.0) == 0
    run("close_task", OTHER, 25.0)
    assert run("expire", 25.0) == 1
    assert run("waiting", OTHER, 7) == []
    assert run("counts", OTHER) == Counts(1, 0, 0, 1)


def test_forgetting_drops_what_is_over_and_keeps_the_totals(run, store):
    store.transact(offer)
    run("add_join", SURVEY, 1, b"join")
    run("announce", SURVEY, 1, "127.0.0.1:1")
    run("put_cells", [cell(number) for number in range(3)])
    ((seq, _), *_) = run("waiting", SURVEY, 7)
    run("took", SURVEY, 7, [seq])
    store.transact(lambda tables: offer(tables, OTHER))
    run("put_cells", [cell(1, survey=OTHER)])
    assert run("forget", 1e9) == 0
    run("close_task", SURVEY, 60.0)
    assert run("forget", 60.0) == 0
    assert run("forget", 61.0) == 1
    assert run("task", SURVEY) is None
    assert run("joins", SURVEY) == []
    assert run("endpoints", SURVEY) == {}
    assert run("counts", SURVEY) == Counts(0, 0, 0, 0)
    assert run("counts", None) == Counts(4, 1, 1, 2)
    assert len(run("waiting", OTHER, 7)) == 1
    assert store.transact(offer)
    assert run("put_cells", [cell(0)]) == [True]


def test_cells_without_a_task_are_forgotten_after_their_time(run):
    run("put_cells", [cell(1, expires=10.0), cell(2, expires=20.0)])
    assert run("forget", 1e9) == 0  # still waiting
    run("expire", 30.0)
    assert run("forget", 20.0) == 0
    assert run("forget", 20.5) == 1
    assert run("forget", 1e9) == 0
    assert run("counts", None) == Counts(2, 0, 0, 2)


def test_work_that_raises_leaves_nothing(store, run):
    def work(tables):
        tables.put_cells([cell(1)])
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"):
        store.transact(work)
    assert run("counts", None) == Counts(0, 0, 0, 0)
    assert run("put_cells", [cell(1)]) == [True]


def test_everything_is_there_after_opening_again(store, run, where):
    run("put_cells", [cell(1)])
    with open_store(where) as again:
        assert again.transact(lambda t: t.put_cells([cell(1), cell(2)])) == [False, True]
    assert [body for _, body in run("waiting", SURVEY, 7)] == [cell(1).body, cell(2).body]


def test_a_closed_store_says_so(where):
    store = open_store(where)
    store.close()
    store.close()
    with pytest.raises(FileUnreadable, match="closed"):
        store.transact(lambda tables: tables.crl())


def test_a_newer_schema_is_refused(where):
    with open_store(where) as store:
        store.transact(lambda t: t._session.run("UPDATE schema_version SET version = 99"))
    with pytest.raises(FileUnreadable, match="schema 99"):
        open_store(where)


def test_a_tally_that_lies_is_found_and_conservation_is_enforced(store, run):
    run("put_cells", [cell(1)])
    lie = "UPDATE tallies SET waiting = waiting + 1"
    with pytest.raises(FileUnreadable, match=r"(?i)constraint"):
        store.transact(lambda t: t._session.run(lie))
    store.transact(lambda t: t._session.run(f"{lie}, sent = sent + 1"))
    (line,) = store.integrity()
    assert SURVEY.hex() in line
    store.transact(lambda t: t._session.run("UPDATE tallies SET waiting = 1, sent = 1"))


@pytest.mark.parametrize("seed", range(3))
def test_random_operations_agree_with_a_model(store, seed):
    """Cells by id, in memory: the store must accept, hand out and count exactly alike."""
    rng = random.Random(seed)
    surveys, model, now = (SURVEY, OTHER), {}, 0.0

    def mail(survey, recipient):
        return [
            row.body
            for (where, _), (row, state) in model.items()
            if (where, row.recipient, state) == (survey, recipient, "waiting")
        ]

    for _ in range(120):
        now += rng.random()
        survey, recipient = rng.choice(surveys), rng.choice((0, 1, CURATOR))
        action = rng.choice(("put", "put", "took", "expire"))
        if action == "put":
            rows = [
                cell(rng.randrange(300), recipient, rng.choice(surveys), now + 8 * rng.random())
                for _ in range(rng.randrange(12))
            ]
            expected = []
            for row in rows:
                expected.append(row[:2] not in model)
                model.setdefault(row[:2], (row, "waiting"))
            assert store.transact(lambda t, rows=rows: t.put_cells(rows)) == expected
        elif action == "took":
            page = store.transact(lambda t, s=survey, r=recipient: t.waiting(s, r, 0, 5))
            assert [body for _, body in page] == mail(survey, recipient)[:5]
            seqs = [seq for seq, _ in page] * 2
            count = store.transact(lambda t, s=survey, r=recipient, q=seqs: t.took(s, r, q))
            assert count == len(page)
            for _, body in page:
                model[survey, body] = (model[survey, body][0], "delivered")
        else:
            over = [k for k, (row, s) in model.items() if s == "waiting" and row.expires <= now]
            assert store.transact(lambda t, now=now: t.expire(now)) == len(over)
            for key in over:
                model[key] = (model[key][0], "expired")
        for survey in surveys:
            states = [state for (where, _), (_, state) in model.items() if where == survey]
            counts = store.transact(lambda t, s=survey: t.counts(s))
            assert counts == (
                len(states),
                *(states.count(state) for state in ("waiting", "delivered", "expired")),
            )
    assert store.integrity() == []


def test_large_batches(run):
    numbers = [*range(2500), *range(5), *range(2500, 2600)]
    flags = run("put_cells", [cell(number) for number in numbers])
    assert flags == [True] * 2500 + [False] * 5 + [True] * 100
    found = run("waiting", SURVEY, 7, 0, 10000)
    assert [body for _, body in found] == [cell(number).body for number in range(2600)]
    assert run("took", SURVEY, 7, [seq for seq, _ in found]) == 2600


class TestSqlite:
    @pytest.fixture
    def where(self, tmp_path):
        return tmp_path / "hub.db"

    def test_it_is_durable(self, store):
        assert store._pragma("journal_mode") == ["wal"]
        assert store._pragma("synchronous") == [2]

    def test_a_damaged_file_is_found(self, where):
        with open_store(where) as store:
            store.transact(lambda t: t.put_cells([cell(n, body=bytes(1024)) for n in range(200)]))
        with sqlite3.connect(where) as database:
            database.execute("PRAGMA writable_schema = ON")
            database.execute("DELETE FROM sqlite_master WHERE name = 'bundles_waiting'")
        database.close()
        with open_store(where) as store:
            assert store.integrity()

    def test_where(self, tmp_path):
        path = tmp_path / "a.db"
        with open_store(f"sqlite:///{path}") as store:
            store.transact(lambda t: t.put_cells([cell(1)]))
        with open_store(str(path)) as store:
            assert store.transact(lambda t: t.counts()).sent == 1

    def test_what_is_no_store_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)  # SQLite's name for no file is, to a file system, a name
        (tmp_path / "text").write_text("not a database\n" * 100)
        for bad in (tmp_path / "text", tmp_path / "missing" / "a.db", tmp_path):
            with pytest.raises(FileUnreadable, match="cannot be opened"):
                open_store(bad)
        with pytest.raises(FileUnreadable, match="local disk"):
            open_store(":memory:")
        with pytest.raises(InvalidParameter, match="mysql"):
            open_store("mysql://user:secret@host/db")

    def test_a_full_disk_is_a_clear_error_and_harmless(self, where):
        with open_store(where) as store:
            store._pragma("max_page_count = 40")
            with pytest.raises(FileUnreadable, match="full"):
                store.transact(
                    lambda t: t.put_cells([cell(n, body=bytes(1024)) for n in range(2000)])
                )
            assert store.transact(lambda t: t.put_cells([cell(1)])) == [True]
            assert store.integrity() == []

    def test_without_the_driver_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        monkeypatch.delitem(sys.modules, "incrowd.live.store.postgres", raising=False)
        with pytest.raises(MissingExtra, match=r"incrowd\[live\]"):
            open_store("postgresql://localhost/hub")


class TestPostgres:
    @pytest.fixture
    def where(self, postgres_url):
        return postgres_url

    def test_it_is_durable(self, store):
        ask = "SELECT current_setting('synchronous_commit')"
        assert store.transact(lambda t: t._session.rows(ask)) == [("on",)]

    def test_a_server_that_acknowledges_early_is_overruled(self, where):
        with open_store(f"{where}%20-csynchronous_commit%3Doff") as store:
            ask = "SELECT current_setting('synchronous_commit')"
            assert store.transact(lambda t: t._session.rows(ask)) == [("on",)]

    def test_what_cannot_be_reached_is_named_without_its_password(self, tmp_path):
        with pytest.raises(FileUnreadable, match=r"postgresql://127\.0\.0\.1/hub") as caught:
            open_store("postgresql://me:secret@127.0.0.1:1/hub")
        assert "secret" not in str(caught.value)
        with pytest.raises(FileUnreadable, match="URL"):
            open_store("postgresql://me:secret@[/hub")
