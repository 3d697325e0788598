"""``incrowd device backup``, ``move`` and ``restore``, as their user types them."""

import io
import json
from pathlib import Path

import pytest
from cli_helpers import Call, assert_fails

from incrowd import errors
from incrowd.live.authority import Authority, Register
from incrowd.live.journal import Journal
from incrowd.live.keys import Role
from incrowd.live.service import JOURNAL_FILE

PASSPHRASE = "correct horse battery"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two devices of one process that is stopped, and a passphrase."""
    Authority.create().save(tmp_path / "authority")
    for keys in Register(tmp_path / "authority").issue(["p-0", "p-1"], Role.device, []):
        keys.save(tmp_path / "devices" / keys.name)
    (tmp_path / "state").mkdir()
    Journal(tmp_path / "state" / JOURNAL_FILE).close()
    (tmp_path / "passphrase").write_text(PASSPHRASE + "\n")
    (tmp_path / "passphrase").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(command: str, place: str = "") -> list[str]:
    where = ["--state", f"{place}state", "--keys", f"{place}devices"]
    return ["device", command, "file", *where, "--passphrase-file", "passphrase"]


def test_devices_that_move_are_retired_here_and_restored_there(home: Path, incrowd: Call) -> None:
    moved = incrowd(*words("move"))
    assert moved.code == 0, moved.err
    assert "retired here" in moved.out
    restored = incrowd(*words("restore", "new/"), "--format", "json")
    assert json.loads(restored.out) == {
        "restored": 2, "moved": True, "budgets": "as they were",
    }  # fmt: skip
    assert (home / "new/devices/p-1/identity.pem").exists()
    (home / "file").unlink()
    assert_fails(incrowd(*words("move")), errors.FileUnreadable, "was moved")


def test_restored_copy_says_that_budgets_count_as_spent(home: Path, incrowd: Call) -> None:
    assert incrowd(*words("backup")).code == 0
    assert "count as spent" in incrowd(*words("restore", "new/")).out


def test_passphrase_comes_from_standard_input(
    home: Path, incrowd: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSPHRASE + "\n"))
    assert incrowd(*words("backup")[:-2]).code == 0
    assert incrowd(*words("restore", "new/")).code == 0


def test_passphrase_that_others_can_read_is_refused(home: Path, incrowd: Call) -> None:
    (home / "passphrase").chmod(0o644)
    assert_fails(incrowd(*words("backup")), errors.FileUnreadable, "chmod 600")
    assert not (home / "file").exists()


def test_file_that_is_missing_is_named(home: Path, incrowd: Call) -> None:
    assert_fails(incrowd(*words("restore", "new/")), errors.FileUnreadable, "cannot read file")
