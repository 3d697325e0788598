"""Wishes of the owner, beside a running device: pause, consent, withdraw.

The journal has one writer, the process that runs the devices. Commands of the owner therefore
leave what they want in a file of their own in the state directory; the process looks at it whenever
it decides or begins, and at least once a second. The file is replaced as a whole, under a lock
among the commands, and read by its owner alone.

None of it depends on an answer, and what is sent after a refusal looks like any other report.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from incrowd.errors import FileUnreadable
from incrowd.live.keys import private_directory, write_private

CONTROL_FILE: Final = "control.json"
_REMEMBERED: Final = 1024
"""Surveys of which the newest wishes are kept."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that the owner has said; surveys are named by their hexadecimal identifiers."""

    paused: bool = False
    """Join nothing, and begin nothing that was joined."""
    consent: dict[str, bool] = {}
    """Whether the owner consents to a survey; silence is refusal."""
    withdrawn: tuple[str, ...] = ()
    """Surveys that must not begin."""

    def consents(self, survey: bytes) -> bool:
        """Whether the owner has said yes."""
        return self.consent.get(survey.hex(), False)

    def withdraws(self, survey: bytes) -> bool:
        """Whether the owner has withdrawn from a survey."""
        return survey.hex() in self.withdrawn

    def with_pause(self, paused: bool) -> Wishes:
        """The same wishes, paused or not."""
        return msgspec.structs.replace(self, paused=paused)

    def with_consent(self, survey: bytes, given: bool) -> Wishes:
        """The same wishes, with or without consent to this survey."""
        kept = {each: said for each, said in self.consent.items() if each != survey.hex()}
        newest = [*kept.items(), (survey.hex(), given)][-_REMEMBERED:]
        return msgspec.structs.replace(self, consent=dict(newest))

    def with_withdrawal(self, survey: bytes) -> Wishes:
        """The same wishes, and never to begin this survey."""
        kept = [each for each in self.withdrawn if each != survey.hex()]
        return msgspec.structs.replace(self, withdrawn=(*kept, survey.hex())[-_REMEMBERED:])


class Control:
    """The file of wishes in a state directory."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._path = state / CONTROL_FILE
        self._seen: tuple[int, int] | None = None
        self._wishes = Wishes()

    def wishes(self) -> Wishes:
        """What the owner wants now; read again only when the file was replaced.

        Raises:
            FileUnreadable: The file is there and cannot be read: what its owner wants is unknown.

        """
        try:
            found = os.stat(self._path)
            seen = (found.st_mtime_ns, found.st_ino)
            if seen != self._seen:
                self._wishes = msgspec.json.decode(self._path.read_bytes(), type=Wishes)
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._wishes = None, Wishes()
        except (OSError, ValueError) as error:
            raise FileUnreadable(
                f"cannot read {self._path}, which holds the owner's wishes: {error}: remove it to "
                "begin without any"
            ) from None
        return self._wishes

    def change(self, change: Callable[[Wishes], Wishes]) -> Wishes:
        """Replace the wishes; returns when that is durable."""
        private_directory(self._state)
        with self._alone():
            changed = change(self.wishes())
            write_private(self._path, msgspec.json.encode(changed))
        return changed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other commands out meanwhile."""
        lock = os.open(self._state / f"{CONTROL_FILE}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
