"""``incrowd keys``: from an authority to the keys of a crowd, and back again."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import typer

from incrowd.cli.keys import app
from incrowd.errors import FileNotWritable, FileUnreadable, InvalidParameter
from incrowd.live.authority import load_authority_certificate, read_revoked
from incrowd.live.keys import PrivateKeys, Role, check
from incrowd.live.reasons import Reason, Rejected


@pytest.fixture
def keys(capsys, monkeypatch, tmp_path):
    """Calls a command in an empty directory; what it printed, as data when that was asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    command = typer.main.get_command(app)

    def call(*words):
        command(args=[str(word) for word in words], prog_name="keys", standalone_mode=False)
        printed = capsys.readouterr().out
        return json.loads(printed)["keys"] if words[-1] == "json" else printed

    return call


def issue(keys, place, name, *more, role="device"):
    words = ["issue", place, "--ca", "ca", "--role", role, "--name", name, *more]
    return keys(*words, "--format", "json")


def test_issue_with_count_makes_numbered_keys(keys):
    (made,) = keys("ca", "ca", "--name", "our authority", "--format", "json")
    assert (made["name"], made["role"], made["revoked"]) == ("our authority", "authority", 0)
    issue(keys, "hub", "hub", "--host", "hub.example", "--host", "192.0.2.1", role="hub")
    rows = issue(keys, "crowd", "device", "--count", 12)
    assert [row["name"] for row in rows] == [f"device-{index:02}" for index in range(12)]
    ca = load_authority_certificate(Path("ca"))
    for row in rows:
        record = PrivateKeys.load(Path(row["directory"])).record()
        assert check(record, ca, time.time()) is Role.device
        assert (record.identity.hex(), record.hpke.hex()) == (row["identity"], row["sealing_key"])
    # In the order of their numbers, whatever the file system says.
    assert keys("show", "crowd", "--format", "json") == rows
    shown = keys("show", "crowd")
    assert "device-11" in shown
    assert "crowd/device-11" in shown
    assert "our authority" in keys("show", "ca")
    assert "hub" in keys("show", "hub")


def test_rotate_replaces_sealing_key_alone(keys):
    keys("ca", "ca")
    (before,) = issue(keys, "ada", "ada")
    (after,) = keys("rotate", "ada", "--format", "json")
    assert after["sealing_serial"] == 2
    assert after["sealing_key"] != before["sealing_key"]
    assert after["identity"] == before["identity"]
    assert keys("show", "ada", "--format", "json") == [after]


def test_revoke_lists_certificate_once(keys):
    keys("ca", "ca")
    issue(keys, "ada", "ada")
    issue(keys, "bob", "bob")
    assert "certificates withdrawn" in keys("revoke", "ada", "--ca", "ca")
    ca = load_authority_certificate(Path("ca"))
    revoked = read_revoked(Path("ca"), ca)
    with pytest.raises(Rejected) as caught:
        check(PrivateKeys.load(Path("ada")).record(), ca, time.time(), revoked)
    assert caught.value.reason is Reason.revoked
    assert check(PrivateKeys.load(Path("bob")).record(), ca, time.time(), revoked)
    assert "withdrawn before" in keys("revoke", "ada", "--ca", "ca")
    assert keys("show", "ca", "--format", "json")[0]["revoked"] == 1


def test_issue_and_authority_keep_existing_keys(keys):
    keys("ca", "ca")
    issue(keys, "ada", "ada")
    before = Path("ada/identity.pem").read_bytes()
    with pytest.raises(FileNotWritable, match="ada already holds keys"):
        issue(keys, "ada", "bob")
    with pytest.raises(FileNotWritable, match="ca already holds keys"):
        keys("ca", "ca")
    with pytest.raises(InvalidParameter, match="'ada' already has a certificate"):
        issue(keys, "elsewhere", "ada")
    assert Path("ada/identity.pem").read_bytes() == before
    assert not Path("elsewhere").exists()


def test_keys_commands_name_mistakes(keys):
    with pytest.raises(FileUnreadable, match="cannot read"):
        issue(keys, "ada", "ada")
    keys("ca", "ca")
    with pytest.raises(typer.BadParameter, match="'boss' is not one of device, curator, hub"):
        issue(keys, "ada", "ada", role="boss")
    with pytest.raises(typer.BadParameter, match="leave out slashes"):
        issue(keys, "ada", "../ada", "--count", 2)
    with pytest.raises(InvalidParameter, match="check the name"):
        keys("revoke", "nobody", "--ca", "ca")
    Path("empty").mkdir()
    with pytest.raises(FileUnreadable, match="empty holds no keys"):
        keys("show", "empty")
    with pytest.raises(FileUnreadable, match="cannot read"):
        keys("show", "nowhere")
    assert not Path("ada").exists()
