"""Keys and ledgers in one encrypted file: to keep a copy, or to move devices to another machine.

A *copy* holds the keys and the ledgers. The device goes on, so its ledger grows and the copy does
not: restored, every budget counts as spent, since the lines that are missing are unknown. It keeps
the identity and the record of what was answered.

A *move* holds the whole journal, running surveys included, and the old place is retired in the same
step: its witness says so, and nothing runs there any more. What is left of the budgets moves along.
A file that is restored on two machines makes two devices of one identity; no machine can notice
that alone.

The file is one ChaCha20-Poly1305 ciphertext under a key that scrypt derives from a passphrase. Its
header (parameters and salt) is authenticated. Names of directories in it are checked before
anything is written, and nothing that exists is replaced.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from incrowd.errors import FileNotWritable, FileUnreadable, InvalidParameter
from incrowd.live.journal import Journal
from incrowd.live.keys import CERTIFICATE_FILE, PrivateKeys, private_directory, write_private
from incrowd.live.witness import Witness, exhaust

_MAGIC: Final = b"incrowd backup 1\0"
_COST: Final = 17
"""The logarithm of scrypt's cost: 128 MiB for each guess at the passphrase."""
_SALT, _NONCE = 16, 12
_LEAST_PASSPHRASE = 12
_LIMIT: Final = 1 << 31
_COPIED = (
    "restored from a copy: what was answered since is unknown, the whole budget counts as spent"
)

_Name = Annotated[str, msgspec.Meta(pattern=r"^[\w.-]{1,100}$")]


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that one file carries."""

    final: bool
    """Whether the devices were moved, so that nothing was answered since."""
    made: float
    journal: bytes
    keys: dict[str, dict[_Name, bytes]]
    """The files in the directory of each device's keys, by its name; one alone has no name."""


def save(target: Path, state: Path, keys: Path, passphrase: str, now: float, *, move: bool) -> None:
    """Write the devices with these keys to an encrypted file; a move also retires them here.

    ``state`` is the journal. A file that exists is not replaced.
    """
    if target.exists():
        raise FileNotWritable(f"{target} is there already: choose another name")
    owners = {place: _owner(place) for place in _places(keys).values()}
    for place in owners:
        Witness(place).read()
    # To move, the store must not be in use: opening it for writing makes sure of that.
    with Journal(state, readonly=not move) as journal:
        contents = Contents(
            final=move,
            made=now,
            journal=_image(state, whole=move),
            keys={name: _files(place) for name, place in _places(keys).items()},
        )
        write_private(target, _seal(msgspec.msgpack.encode(contents), passphrase))
        if move:
            for place, owner in owners.items():
                Witness(place).write(journal.head(owner), moved=True)


def restore(sealed: bytes, state: Path, keys: Path, passphrase: str, now: float) -> Contents:
    """Write the store and the keys of a backup to places where nothing is yet."""
    contents = _decode(_open(sealed, passphrase))
    for place in (state, keys):
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise FileNotWritable(f"{place} is there already: restore to a new place")
    private_directory(state.parent)
    write_private(state, contents.journal)
    private_directory(keys)
    places = [(keys / name if name else keys) for name in contents.keys]
    for place, files in zip(places, contents.keys.values(), strict=True):
        private_directory(place)
        for name, content in files.items():
            write_private(place / name, content)
    with Journal(state) as journal:
        for place in places:
            owner = _owner(place)
            if not contents.final:
                exhaust(journal, owner, os.urandom(16), now, _COPIED)
            Witness(place).write(journal.head(owner))
    return contents


def _places(keys: Path) -> dict[str, Path]:
    """The directories of keys: this one, or those in it."""
    if (keys / CERTIFICATE_FILE).exists():
        return {"": keys}
    try:
        found = {each.name: each for each in sorted(keys.iterdir()) if each.is_dir()}
    except OSError as error:
        raise FileUnreadable(f"cannot read {keys}: {error.strerror}") from None
    if not found:
        raise FileUnreadable(f"{keys} holds no keys: name the directory of a device's keys")
    return found


def _owner(place: Path) -> bytes:
    return PrivateKeys.load(place).identity.public_key().public_bytes_raw()


def _files(place: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in sorted(place.iterdir())
        if file.is_file() and not file.name.startswith(".")
    }


def _image(path: Path, *, whole: bool) -> bytes:
    """The journal as bytes; unless whole, of all its tables only the ledger has rows."""
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(":memory:", isolation_level=None)) as copy,
        ):
            source.backup(copy)
            tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (name,) in () if whole else tables:
                if name != "ledger" and not name.startswith("sqlite_"):
                    copy.execute(f'DELETE FROM "{name}"')  # noqa: S608
            # Also what was deleted before must not travel in free pages.
            copy.execute("VACUUM")
            return copy.serialize()
    except sqlite3.Error as error:
        raise FileUnreadable(f"cannot copy the journal {path}: {error}") from None


def _key(passphrase: str, cost: int, salt: bytes) -> bytes:
    scrypt = Scrypt(salt=salt, length=32, n=1 << cost, r=8, p=1)
    return scrypt.derive(passphrase.encode())


def _seal(plain: bytes, passphrase: str) -> bytes:
    if len(passphrase) < _LEAST_PASSPHRASE:
        raise InvalidParameter(
            f"a passphrase needs at least {_LEAST_PASSPHRASE} characters: the file is only as safe "
            "as that"
        )
    if len(plain) >= _LIMIT:
        raise FileUnreadable("the store is too large for one backup: remove what is over first")
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    header = _MAGIC + bytes([_COST]) + salt + nonce
    key = _key(passphrase, _COST, salt)
    return header + ChaCha20Poly1305(key).encrypt(nonce, plain, header)


def _open(sealed: bytes, passphrase: str) -> bytes:
    size = len(_MAGIC) + 1 + _SALT + _NONCE
    header = sealed[:size]
    if len(header) < size or not header.startswith(_MAGIC) or header[len(_MAGIC)] != _COST:
        raise FileUnreadable("this is no backup, or one of another version")
    salt, nonce = header[-_NONCE - _SALT : -_NONCE], header[-_NONCE:]
    try:
        return ChaCha20Poly1305(_key(passphrase, _COST, salt)).decrypt(nonce, sealed[size:], header)
    except InvalidTag:
        raise FileUnreadable(
            "the backup does not open: the passphrase is another one, or the file was altered"
        ) from None


def _decode(plain: bytes) -> Contents:
    try:
        contents = msgspec.msgpack.decode(plain, type=Contents)
        msgspec.convert([name for name in contents.keys if name], list[_Name])
    except ValueError as error:
        raise FileUnreadable(f"the backup holds something else: {error}") from None
    if any({".", ".."} & {name, *files} for name, files in contents.keys.items()):
        raise FileUnreadable("the backup names files that it must not")
    return contents
