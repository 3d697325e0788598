"""Answers are secrets: kept from prints and tracebacks, and read by the beginning alone."""

from __future__ import annotations

import ast
import copy
import logging
import pickle
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

import incrowd
from incrowd.errors import FileUnreadable, MissingColumn, ProtocolFailed
from incrowd.live.answers import AnswerBook, Answers, Secret
from incrowd.live.keys import write_private
from incrowd.live.party import Party
from incrowd.protocols.runtime.actor import device

HELD = "perfectly-private"
SOURCE = Path(incrowd.__file__).parent


@dataclass(frozen=True)
class Holder:
    answer: Secret


def test_secret_when_printed_in_any_way_is_hidden(caplog):
    secret = Secret(HELD)
    logging.getLogger("test").warning("%s %r", secret, Holder(secret))
    shown = [
        repr(secret), str(secret), f"{secret}", f"{secret!r:>12}", "%s" % secret,  # noqa: UP031
        repr(Holder(secret)), repr([secret]), repr(Answers({"vote": secret})), caplog.text,
        repr(AnswerBook({"": Answers({"vote": secret})})),
    ]  # fmt: skip
    assert all("<secret>" in each and HELD not in each for each in shown)
    assert secret.reveal() == HELD


def test_secret_in_a_traceback_with_locals_is_hidden():
    def fail(secret):
        return secret + 1

    with pytest.raises(TypeError) as caught:
        fail(Secret(HELD))
    lines = traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
    assert HELD not in "".join(lines)


@pytest.mark.parametrize("store", [pickle.dumps, copy.copy, copy.deepcopy])
def test_secret_is_never_stored_or_copied(store):
    with pytest.raises(TypeError, match="secret"):
        store(Secret(HELD))


def revealed(book: AnswerBook, name: str, *columns: str) -> list[str | None]:
    return [None if each is None else each.reveal() for each in book.of(name).read(columns)]


def test_book_when_cells_are_missing_empty_or_no_text_reads_alike(tmp_path):
    path = tmp_path / "answers.csv"
    write_private(path, b"device,vote,age\np0,yes,7\np1,,\np2,no\np3,\xff\xfe,9,extra\n")
    book = AnswerBook.read(path)
    assert revealed(book, "p0", "vote", "age") == ["yes", "7"]
    assert revealed(book, "p1", "vote", "age") == [None, None]
    assert revealed(book, "p2", "vote", "age") == ["no", None]
    assert revealed(book, "p3", "age", "height") == ["9", None]
    assert revealed(book, "stranger", "vote") == [None]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_book_when_others_can_read_the_file_is_refused_with_the_remedy(tmp_path, mode):
    path = tmp_path / "answers.csv"
    write_private(path, b"vote\nyes\n")
    path.chmod(mode)
    with pytest.raises(FileUnreadable, match=f"chmod 600 {path}") as refused:
        AnswerBook.read(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("table", ["vote\nyes\nno\n", "device,vote\np0,yes\np0,no\n"])
def test_book_with_rows_of_unclear_owners_is_refused_without_their_answers(tmp_path, table):
    path = tmp_path / "answers.csv"
    write_private(path, table.encode())
    with pytest.raises(MissingColumn) as refused:
        AnswerBook.read(path)
    assert "yes" not in str(refused.value)


def test_book_from_standard_input_holds_the_single_row():
    code = (
        "from pathlib import Path; from incrowd.live.answers import AnswerBook;"
        "print(AnswerBook.read(Path('-')).of('anyone').read(['vote'])[0].reveal())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        input="vote\nyes\n",
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "yes"


def _calls(path: Path, name: str) -> int:
    tree = ast.parse(path.read_text())
    return sum(isinstance(each, ast.Attribute) and each.attr == name for each in ast.walk(tree))


def test_answers_are_revealed_in_one_place():
    found = {str(path.relative_to(SOURCE)): _calls(path, "reveal") for path in SOURCE.rglob("*.py")}
    assert {path: count for path, count in found.items() if count} == {"live/device.py": 1}


def test_answers_are_imported_where_devices_are_made_and_nowhere_else():
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "incrowd.live.answers" in path.read_text()
    }
    assert users == {"cli/device.py", "live/device.py", "live/service.py"}


def test_party_that_cannot_begin_says_nothing_of_the_answer(caplog):
    def fail():
        raise ValueError(f"what is {HELD}?")

    party = Party(
        device(0),
        b"s" * 16,
        fail,
        None,
        origin=0.0,
        round_seconds=1.0,  # type: ignore[arg-type]
    )
    with pytest.raises(ProtocolFailed, match="cannot begin: ValueError in fail") as refused:
        party.begin(0.0)
    shown = "".join(traceback.format_exception(refused.value))
    assert HELD not in shown
    assert not party.begun
