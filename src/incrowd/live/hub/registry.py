"""Who exists: the enrolled key records, and the authority's word on whom it no longer vouches for.

A record is enrolled when its certificate comes from the authority, is valid now and not revoked,
and its signature holds. A revocation list counts when the authority signed it and it is newer than
the one held; its identities lose their records in the same transaction.

Lists are ordered by the time of issue and, within one second, by their length: an authority's list
only grows. So an old list that is sent again cannot bring anyone back.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from cryptography import x509

from incrowd.live.authority import revoked_serials
from incrowd.live.keys import KeyRecord, Role, check
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.store import Committer, Tables

_PAGE = 1000
_ENTRIES_BITS = 20
_ENROLLED = (Role.device, Role.helper, Role.curator)


class Registry:
    """The enrolled parties of one authority."""

    def __init__(self, committer: Committer, authority: x509.Certificate) -> None:
        self._committer = committer
        self._authority = authority
        self._serials: frozenset[int] = frozenset()
        self._crl: bytes | None = None
        self.revoked: set[bytes] = set()
        """The identities that were revoked after they had enrolled."""

    async def refresh(self) -> set[bytes]:
        """Read what the store holds; the identities revoked since the last time."""
        crl, revoked = await self._committer.do(lambda tables: (tables.crl(), tables.revoked()))
        if crl is not None and crl != self._crl:
            self._serials |= revoked_serials(crl, self._authority)
        fresh = revoked - self.revoked
        self._crl, self.revoked = crl, revoked
        return fresh

    async def enrol(self, encoded: bytes) -> str | None:
        """Take in a record, new or with a larger serial; its name, or none if another is held."""
        record = KeyRecord.decode(encoded)
        if self.check(record) not in _ENROLLED:
            raise Rejected(Reason.forged, "only devices, helpers and curators enrol")
        if record.identity in self.revoked:
            raise Rejected(Reason.revoked)
        # Stored as this program encodes it, so that equal records are equal bytes.
        held = await self._committer.do(
            lambda tables: tables.enrol(
                record.name, record.identity, record.serial, record.encode(), time.time()
            )
        )
        return record.name if held else None

    def check(self, record: KeyRecord, role: Role | None = None) -> Role:
        """The role for which the authority certified a record that is valid now."""
        return check(record, self._authority, time.time(), self._serials, role)

    async def greet(self, identity: bytes) -> KeyRecord:
        """The valid record of an enrolled identity."""
        encoded = await self._committer.do(lambda tables: tables.record_of(identity))
        if encoded is None or identity in self.revoked:
            raise Rejected(Reason.revoked if identity in self.revoked else Reason.unknown)
        record = KeyRecord.decode(encoded)
        self.check(record)
        return record

    async def require_enrolled(self, records: list[KeyRecord]) -> None:
        """Refuse unless every one of these is enrolled."""
        for at in range(0, len(records), _PAGE):
            identities = [record.identity for record in records[at : at + _PAGE]]
            await self._committer.do(partial(_require, identities))

    async def listing(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Names and records in the order of the names."""
        return await self._committer.do(lambda tables: tables.records(after, limit))

    async def named(self, name: str) -> bytes | None:
        """The record under a name."""
        return await self._committer.do(lambda tables: _named(tables, name))

    async def crl(self) -> bytes | None:
        """The newest revocation list."""
        return await self._committer.do(lambda tables: tables.crl())

    async def revoke(self, crl: bytes) -> tuple[bool, set[bytes]]:
        """Take in a revocation list; whether it is the newest, and the identities that are out."""
        serials = revoked_serials(crl, self._authority)
        number = _number(crl, len(serials))

        def work(tables: Tables) -> set[bytes] | None:
            if not tables.put_crl(crl, number):
                return None
            out = {
                record.identity
                for record in _all(tables)
                if x509.load_der_x509_certificate(record.certificate).serial_number in serials
            }
            for identity in out:
                tables.revoke(identity, time.time())
            return out

        # In force before it is stored: whoever it names must not slip in meanwhile.
        self._serials |= serials
        out = await self._committer.do(work)
        if out is None:
            return False, set()
        self._crl = crl
        self.revoked |= out
        return True, out


def _require(identities: list[bytes], tables: Tables) -> None:
    for identity in identities:
        if tables.record_of(identity) is None:
            raise Rejected(Reason.unknown, "someone on the roster is not enrolled")


def _named(tables: Tables, name: str) -> bytes | None:
    if not name or not name.isprintable():
        return None  # no authority certifies such a name
    # Names are ordered by code points, so behind all that are smaller the one asked for is next.
    before = name[:-1] + chr(ord(name[-1]) - 1) + chr(sys.maxunicode)
    return next((record for found, record in tables.records(before, 1) if found == name), None)


def _all(tables: Tables) -> Iterator[KeyRecord]:
    after = ""
    while page := tables.records(after, _PAGE):
        yield from (KeyRecord.decode(record) for _, record in page)
        after = page[-1][0]


def _number(crl: bytes, entries: int) -> int:
    issued = x509.load_pem_x509_crl(crl).last_update_utc.timestamp()
    return (max(0, int(issued)) << _ENTRIES_BITS) + min(entries, (1 << _ENTRIES_BITS) - 1)
