"""Devices and helpers as a process that runs until it is told to stop.

One process may host many devices, each with its own keys, connection, outbox and ledger; they share
an event loop and the file in which their journals are. A termination signal lets the commit under
way finish and leaves everything else to the next start, which goes on where this one stopped. A
hangup signal makes it take up sealing keys that were renewed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from incrowd.errors import FileUnreadable, IncrowdError, InvalidParameter
from incrowd.live.answers import AnswerBook
from incrowd.live.control import Control
from incrowd.live.device import Device
from incrowd.live.host import Host, Network, patiently
from incrowd.live.journal import Journal
from incrowd.live.keys import CERTIFICATE_FILE, PrivateKeys, Role, private_directory
from incrowd.live.member import Helper, Member
from incrowd.live.policy import Policy
from incrowd.live.supervisor import Service
from incrowd.live.witness import Witness, vouch
from incrowd.protocols.runtime.actor import is_device

_log = logging.getLogger(__name__)

_AT_ONCE = 16
"""How many members connect at the same time: handshakes are the dearest thing they do."""
_LOOK = 1.0
"""Seconds between looks at the owner's wishes."""
JOURNAL_FILE = "journal.sqlite"


class Report(msgspec.Struct, kw_only=True):
    """What the parties of a process did since it started."""

    cells: int = 0
    device_cells: int = 0
    dummies: int = 0
    missed_ticks: int = 0
    rejected: dict[str, int] = msgspec.field(default_factory=Counter)
    undeliverable: dict[str, int] = msgspec.field(default_factory=Counter)
    declined: dict[str, int] = msgspec.field(default_factory=Counter)
    """Surveys that were not taken part in, by the reason."""


def key_directories(path: Path, first: int = 0, count: int | None = None) -> list[Path]:
    """One directory of keys, or ``count`` of those in a directory of directories, by name."""
    if count is None:
        if path.is_dir() and not (path / CERTIFICATE_FILE).exists():
            raise InvalidParameter(
                f"{path} holds no keys of its own: name the directory of one device, or say with "
                "--count how many of those in it to host"
            )
        return [path]
    try:
        found = sorted(each for each in path.iterdir() if each.is_dir())
    except OSError as error:
        raise FileUnreadable(f"cannot read {path}: {error.strerror}") from None
    chosen = found[first : first + count]
    if len(chosen) < count:
        raise InvalidParameter(
            f"{path} has keys for {len(found)} parties, not for {count} from number {first} on: "
            "make more with 'incrowd keys issue --count'"
        )
    return chosen


async def serve(
    network: Network,
    state: Path,
    devices: Sequence[Path],
    *,
    answers: AnswerBook,
    policy: Policy | None,
    helpers: Sequence[Path] = (),
    ready: Callable[[int], None],
) -> Report:
    """Host these until a termination signal; ``ready`` is told how many, once all are connected."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    private_directory(state)
    members: list[Member] = []
    control = Control(state)
    owners = {path: _keys(path, Role.device) for path in devices}
    with Journal(state / JOURNAL_FILE) as journal:
        _vouch(journal, owners)
        async with Host(network, journal) as host:
            supervisor = host.supervisor
            supervisor.on_exhausted = stop.set
            loop.add_signal_handler(signal.SIGHUP, lambda: supervisor.job(_renew(members)))
            for path, keys in owners.items():
                own = answers.of(keys.name)
                members.append(
                    Device(keys, host, path, answers=own, policy=policy, control=control)
                )
            members += [Helper(_keys(path, Role.helper), host, path) for path in helpers]
            supervisor.service("wishes", lambda pulse: _watch(pulse, members), period=_LOOK)
            opening = supervisor.job(_open(members))
            stopping = supervisor.job(stop.wait())
            try:
                await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
                if opening.done():
                    await opening
                    ready(len(members))
                await stopping
            finally:
                loop.remove_signal_handler(signal.SIGHUP)
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)
                await asyncio.gather(*(member.close() for member in members))
            supervisor.check()
    return _report(members)


async def _open(members: Sequence[Member]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(member: Member) -> None:
        async with slots:
            await patiently(member.enrol)
            await member.open()

    await asyncio.gather(*(one(member) for member in members))


async def _watch(pulse: Service, members: Sequence[Member]) -> None:
    """Act on what the owner wants while the process runs."""
    while True:
        await pulse.sleep(_LOOK)
        try:
            for member in members:
                if isinstance(member, Device):
                    await member.withdraw()
        except FileUnreadable as error:
            # Until its owner's wishes can be read, a device decides nothing.
            pulse.wait(error)


async def _renew(members: Sequence[Member]) -> None:
    """Take up new sealing keys; those that cannot be read leave the old ones in place."""
    for member in members:
        try:
            await member.renew()
        except IncrowdError as error:
            _log.warning("new keys were not taken up: %s", error)


def _vouch(journal: Journal, owners: Mapping[Path, PrivateKeys]) -> None:
    """See to it that no ledger is older than it was when it was last used."""
    older = 0
    for path, keys in owners.items():
        identity = keys.identity.public_key().public_bytes_raw()
        older += not vouch(journal, identity, Witness(path), time.time())
    if older:
        _log.warning(
            "the store in %s was rolled back or replaced: the budgets of %d of its devices count "
            "as spent; give them new keys to begin anew", journal.path.parent, older
        )  # fmt: skip


def _keys(path: Path, role: Role) -> PrivateKeys:
    keys = PrivateKeys.load(path)
    if keys.role is not role:
        raise InvalidParameter(f"the keys in {path} are those of a {keys.role}, not of a {role}")
    return keys


def _report(members: Sequence[Member]) -> Report:
    report = Report()
    for member in members:
        for party in member.parties.values():
            done = party.statistics
            report.cells += done.cells
            report.dummies += done.dummies
            report.missed_ticks += done.missed
            if is_device(party.address):
                report.device_cells += done.cells
            for into, counts in (
                (report.rejected, done.rejected),
                (report.undeliverable, done.undeliverable),
            ):
                _add(into, {str(reason): count for reason, count in counts.items()})
        _add(report.declined, member.refusals)
    return report


def _add(into: dict[str, int], counts: Mapping[str, int]) -> None:
    for reason, count in counts.items():
        into[reason] = into.get(reason, 0) + count
