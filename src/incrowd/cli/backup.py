"""``incrowd device backup``, ``move`` and ``restore``: keys and ledgers in one encrypted file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from incrowd.cli.output import Format, FormatOption, emit
from incrowd.cli.owner import StateOption

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The encrypted file.")]
KeysOption = Annotated[
    Path, typer.Option(help="Directory of a device's keys, or of the directories of several.")
]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(help="File with the passphrase, mode 0600; else one line of standard input."),
]


def backup(
    file: FileArgument,
    state: StateOption,
    keys: KeysOption,
    passphrase_file: PassphraseOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Keep an encrypted copy of keys and ledgers; the device may run meanwhile.

    The device goes on after the copy, so a restored copy counts every budget as spent.
    """
    _save(file, state, keys, passphrase_file, format, move=False)


def move(
    file: FileArgument,
    state: StateOption,
    keys: KeysOption,
    passphrase_file: PassphraseOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Take devices away from this machine into an encrypted file; stop their process first.

    Budgets and running surveys move along, and nothing runs with these keys here any more.
    """
    _save(file, state, keys, passphrase_file, format, move=True)


def restore(
    file: FileArgument,
    state: StateOption,
    keys: KeysOption,
    passphrase_file: PassphraseOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Bring devices of an encrypted file to this machine; nothing that exists is replaced."""
    from incrowd.errors import FileUnreadable
    from incrowd.live.backup import restore as bring
    from incrowd.live.service import JOURNAL_FILE

    try:
        sealed = file.read_bytes()
    except OSError as error:
        raise FileUnreadable(f"cannot read {file}: {error.strerror}") from None
    contents = bring(sealed, state / JOURNAL_FILE, keys, _passphrase(passphrase_file), time.time())
    budgets = "as they were" if contents.final else "count as spent"
    _show({"restored": len(contents.keys), "moved": contents.final, "budgets": budgets}, format)


def _save(
    file: Path, state: Path, keys: Path, passphrase_file: Path | None, format: Format, *, move: bool
) -> None:
    from incrowd.live.backup import save
    from incrowd.live.service import JOURNAL_FILE

    passphrase = _passphrase(passphrase_file)
    save(file, state / JOURNAL_FILE, keys, passphrase, time.time(), move=move)
    retired = "retired here" if move else "go on here"
    _show({"file": str(file), "bytes": file.stat().st_size, "devices": retired}, format)


def _passphrase(path: Path | None) -> str:
    """Read the passphrase: never an option, which others on the machine could read."""
    from incrowd.live.keys import read_private

    if path is not None:
        return read_private(path, "a passphrase").decode().rstrip("\r\n")
    if sys.stdin.isatty():
        return str(typer.prompt("passphrase", hide_input=True))
    return sys.stdin.readline().rstrip("\r\n")


def _show(payload: dict[str, object], format: Format) -> None:
    text = "\n".join(f"{key:<10}{value}" for key, value in payload.items())
    emit(payload, lambda console: console.print(text), format)
