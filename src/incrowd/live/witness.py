"""A witness of each ledger, kept beside the keys: a store that is older than it is found out.

A ledger protects its owner only while it is the newest one. A journal that is restored from a copy,
rolled back or deleted has forgotten reports that left the device, and would spend the same budget
again. So the end of each owner's chain of lines is written into a file in the directory of the
owner's keys, after the commit and before anything of it leaves the device. A store is as new as
its witness if its chain goes through that end. If it does not, a line that uses up every budget is
appended: how much the forgotten lines had cost is unknown, so all of it counts as spent.

A witness that is older than the store, after a crash between the two, proves nothing and is brought
up to date. It is not forced to the disk: a power failure can lose its last update, which makes it
older. Restoring keys and store together from one image of the disk takes the witness along and is
not noticed here: a device then finds its own joins in the starts that the hub still shows (see
``device``). ``backup`` carries keys and ledgers in a way that is noticed.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Final

import msgspec

from incrowd.errors import FileNotWritable, FileUnreadable
from incrowd.live.chain import Entry, Head
from incrowd.live.journal import Journal
from incrowd.live.keys import write_private
from incrowd.live.ledger import Line

_log = logging.getLogger(__name__)

WITNESS_FILE: Final = "ledger-head.json"
_OLDER = "the store is older than this ledger was: the whole budget counts as spent"


class _Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lines: int
    hash: bytes
    moved: bool = False


class Witness:
    """The end of one owner's ledger, as last seen, in the directory of the owner's keys."""

    def __init__(self, keys: Path) -> None:
        self.path = keys / WITNESS_FILE

    def read(self) -> Head | None:
        """The end that was last written, or none; a ledger that was moved away is refused."""
        try:
            seen = msgspec.json.decode(self.path.read_bytes(), type=_Seen)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise FileUnreadable(
                f"cannot read {self.path}, which witnesses the ledger: {error}: without it the "
                "budget that is left is unknown; make new keys with 'incrowd keys issue'"
            ) from None
        if seen.moved:
            raise FileUnreadable(
                f"the device whose keys are in {self.path.parent} was moved to another machine: "
                "run it there"
            )
        return Head(seen.lines, seen.hash)

    def write(self, head: Head, *, moved: bool = False) -> None:
        """Replace what was last written, whole or not at all."""
        seen = _Seen(head.lines, head.hash, moved)
        # One per device and survey: hundreds of forced writes would hold up those of one process.
        write_private(self.path, msgspec.json.encode(seen), durable=moved)


def vouch(journal: Journal, owner: bytes, witness: Witness, now: float) -> bool:
    """Keep this owner's ledger witnessed from now on; false if the store was older than it."""
    seen = witness.read()
    current = seen is None or journal.passes(owner, seen)
    if not current and seen is not None:
        exhaust(journal, owner, seen.hash[:16], now, _OLDER)
    witness.write(journal.head(owner))

    def tell(head: Head) -> None:
        # The line is committed: what it allows must not be undone because the witness stays behind.
        try:
            witness.write(head)
        except (FileNotWritable, FileUnreadable) as error:
            _log.warning("the witness of a ledger is out of date: %s", error)

    journal.witness(owner, tell)
    return current


def exhaust(journal: Journal, owner: bytes, identifier: bytes, now: float, why: str) -> None:
    """Append a line after which no budget has anything left."""
    line = Line(
        at=now, survey=identifier, digest=bytes(32), question=why,
        epsilon0=math.inf, delta0=1.0, promises=[],
    )  # fmt: skip
    batch = journal.batch()
    batch.entries.append(Entry(owner, identifier, msgspec.msgpack.encode(line)))
    journal.commit(batch)
