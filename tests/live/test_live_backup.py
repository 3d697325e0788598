"""Stores that are rolled back, copied or moved: no budget is ever spent twice."""

import os
import shutil
from pathlib import Path

import pytest

from incrowd.errors import FileNotWritable, FileUnreadable, InvalidParameter
from incrowd.live.authority import Authority, Register
from incrowd.live.backup import restore, save
from incrowd.live.chain import Entry
from incrowd.live.decide import Decline, Terms, decide
from incrowd.live.journal import Batch, Journal, PartyRow
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.ledger import Ledger, Line
from incrowd.live.reasons import Reason
from incrowd.live.witness import WITNESS_FILE, Witness, vouch
from tests.live.policies import wide

PASSPHRASE = "correct horse battery"
CURATOR = b"c" * 32
POLICY = wide(CURATOR)


def line(survey: int, epsilon: float = 1.0) -> Line:
    return Line(
        at=0.0, survey=survey.to_bytes(16, "big"), digest=bytes(32), question="?",
        epsilon0=epsilon, delta0=0.0, promises=[("curator", epsilon, 0.0)],
    )  # fmt: skip


def answer(journal: Journal, owner: bytes, survey: int) -> None:
    batch = journal.batch()
    batch.entries.append(Ledger(journal).spend(owner, line(survey)))
    journal.commit(batch)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A device with two answered surveys."""
    Authority.create().save(tmp_path / "authority")
    (keys,) = Register(tmp_path / "authority").issue(["p"], Role.device, [])
    keys.save(tmp_path / "keys")
    with Journal(tmp_path / "journal") as journal:
        assert vouch(journal, owner_of(tmp_path), Witness(tmp_path / "keys"), 0.0)
        for survey in (1, 2):
            answer(journal, owner_of(tmp_path), survey)
    return tmp_path


def owner_of(home: Path, keys: str = "keys") -> bytes:
    return PrivateKeys.load(home / keys).identity.public_key().public_bytes_raw()


def spent(journal: Journal, owner: bytes) -> bool:
    """Whether nothing can be answered any more, whatever the budget."""
    cost = {"curator": (1e-9, 0.0)}
    asked = Terms(
        survey=bytes(16), curator=CURATOR, protocol="local", columns=(), roster=9, crowd=9,
        stated=cost, local=cost["curator"], colluders=0, charged=cost,
    )  # fmt: skip
    decided = decide(asked, POLICY, Ledger(journal).standing(owner, 0.0), 0.0)
    return isinstance(decided, Decline) and decided.reason is Reason.budget


def test_witness_of_current_store_leaves_budget(home: Path) -> None:
    with Journal(home / "journal") as journal:
        assert vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
        assert not spent(journal, owner_of(home))
        answer(journal, owner_of(home), 3)


def test_store_restored_from_older_file_counts_budget_as_spent(home: Path) -> None:
    shutil.copy(home / "journal", home / "older")
    with Journal(home / "journal") as journal:
        vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
        answer(journal, owner_of(home), 3)
    for name in ("journal", "journal-wal", "journal-shm"):
        (home / name).unlink(missing_ok=True)
    shutil.copy(home / "older", home / "journal")
    for _ in range(2):  # for good, not only once
        with Journal(home / "journal") as journal:
            vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
            assert spent(journal, owner_of(home))


def test_deleted_store_counts_budget_as_spent(home: Path) -> None:
    with Journal(home / "another") as journal:
        assert not vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
        assert spent(journal, owner_of(home))


def test_store_of_other_history_counts_budget_as_spent(home: Path) -> None:
    with Journal(home / "another") as journal:
        for survey in (7, 8, 9):
            answer(journal, owner_of(home), survey)
        assert not vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
        assert spent(journal, owner_of(home))


def test_witness_behind_store_is_brought_up_to_date(home: Path) -> None:
    # A crash between the commit and the witness.
    older = (home / "keys" / WITNESS_FILE).read_bytes()
    with Journal(home / "journal") as journal:
        vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
        answer(journal, owner_of(home), 3)
        (home / "keys" / WITNESS_FILE).write_bytes(older)
        assert vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)
        assert not spent(journal, owner_of(home))
        assert Witness(home / "keys").read() == journal.head(owner_of(home))


def test_unreadable_witness_is_refused(home: Path) -> None:
    (home / "keys" / WITNESS_FILE).write_text("{")
    with Journal(home / "journal") as journal, pytest.raises(FileUnreadable, match="new keys"):
        vouch(journal, owner_of(home), Witness(home / "keys"), 0.0)


def test_restored_copy_keeps_lines_and_counts_budget_as_spent(home: Path) -> None:
    with Journal(home / "journal"):  # a device that runs
        save(home / "copy", home / "journal", home / "keys", PASSPHRASE, 1.0, move=False)
    restore((home / "copy").read_bytes(), home / "new/journal", home / "new/keys", PASSPHRASE, 2.0)
    with Journal(home / "new/journal") as journal:
        owner = owner_of(home, "new/keys")
        assert owner == owner_of(home)
        assert vouch(journal, owner, Witness(home / "new/keys"), 3.0)
        assert len(Ledger(journal).lines(owner)) == 3
        assert spent(journal, owner)
    # Where it was made, nothing has changed.
    with Journal(home / "journal") as journal:
        assert vouch(journal, owner_of(home), Witness(home / "keys"), 3.0)
        assert not spent(journal, owner_of(home))


def test_copy_holds_no_reports(home: Path) -> None:
    with Journal(home / "journal") as journal:
        batch: Batch = journal.batch()
        batch.parties.append(
            PartyRow(bytes(16), 0, 0.0, None, 0, b"", None, b"", b"a report of somebody else")
        )
        journal.commit(batch)
    save(home / "copy", home / "journal", home / "keys", PASSPHRASE, 1.0, move=False)
    contents = restore((home / "copy").read_bytes(), home / "j", home / "k", PASSPHRASE, 2.0)
    assert b"a report of somebody else" not in contents.journal


def test_moved_device_keeps_budget_and_running_parts_and_retires_old_place(home: Path) -> None:
    with Journal(home / "journal") as journal:
        batch = journal.batch()
        batch.parties.append(PartyRow(bytes(16), 0, 0.0, None, 0, b"", None, b"", b"state"))
        journal.commit(batch)
    save(home / "moved", home / "journal", home / "keys", PASSPHRASE, 1.0, move=True)
    with Journal(home / "journal") as journal, pytest.raises(FileUnreadable, match="was moved"):
        vouch(journal, owner_of(home), Witness(home / "keys"), 2.0)
    with Journal(home / "empty") as journal, pytest.raises(FileUnreadable, match="was moved"):
        vouch(journal, owner_of(home), Witness(home / "keys"), 2.0)
    restore((home / "moved").read_bytes(), home / "new/journal", home / "new/keys", PASSPHRASE, 2.0)
    with Journal(home / "new/journal") as journal:
        owner = owner_of(home, "new/keys")
        assert vouch(journal, owner, Witness(home / "new/keys"), 3.0)
        assert not spent(journal, owner)
        assert len(Ledger(journal).lines(owner)) == 2
        assert [row.state for row in journal.parties()] == [b"state"]


def test_move_while_device_runs_is_refused_and_leaves_it_alone(home: Path) -> None:
    with Journal(home / "journal"), pytest.raises(FileUnreadable, match="in use"):
        save(home / "moved", home / "journal", home / "keys", PASSPHRASE, 1.0, move=True)
    assert not (home / "moved").exists()
    with Journal(home / "journal") as journal:
        assert vouch(journal, owner_of(home), Witness(home / "keys"), 2.0)


def test_move_that_cannot_be_written_does_not_retire(home: Path) -> None:
    (home / "folder").write_bytes(b"")
    with pytest.raises(FileNotWritable, match="cannot write"):
        save(home / "folder" / "x", home / "journal", home / "keys", PASSPHRASE, 1.0, move=True)
    with Journal(home / "journal") as journal:
        assert vouch(journal, owner_of(home), Witness(home / "keys"), 2.0)


def test_backup_is_encrypted_and_opens_with_its_passphrase_alone(home: Path) -> None:
    save(home / "copy", home / "journal", home / "keys", PASSPHRASE, 1.0, move=False)
    sealed = (home / "copy").read_bytes()
    assert os.stat(home / "copy").st_mode & 0o077 == 0
    assert b"PRIVATE KEY" not in sealed
    altered = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for content, passphrase in ((sealed, PASSPHRASE + "!"), (altered, PASSPHRASE)):
        with pytest.raises(FileUnreadable, match="does not open"):
            restore(content, home / "j", home / "k", passphrase, 2.0)
    with pytest.raises(FileUnreadable, match="no backup"):
        restore(b"PK" + sealed, home / "j", home / "k", PASSPHRASE, 2.0)
    assert not (home / "j").exists()
    assert not (home / "k").exists()


def test_backup_refuses_short_passphrase_and_existing_places(home: Path) -> None:
    with pytest.raises(InvalidParameter, match="at least 12"):
        save(home / "copy", home / "journal", home / "keys", "short", 1.0, move=False)
    save(home / "copy", home / "journal", home / "keys", PASSPHRASE, 1.0, move=False)
    with pytest.raises(FileNotWritable, match="already"):
        save(home / "copy", home / "journal", home / "keys", PASSPHRASE, 1.0, move=False)
    with pytest.raises(FileNotWritable, match="already"):
        restore((home / "copy").read_bytes(), home / "journal", home / "k", PASSPHRASE, 2.0)


def test_entries_of_unwitnessed_owners_are_committed_as_before(home: Path) -> None:
    with Journal(home / "journal") as journal:
        batch = journal.batch()
        batch.entries.append(Entry(b"x" * 32, bytes(16), b"body"))
        journal.commit(batch)
        assert journal.head(b"x" * 32).lines == 1
