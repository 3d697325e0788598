"""Messages of a shuffled check-in."""

from __future__ import annotations

from incrowd.protocols.runtime import wire


class CheckIn(wire.Body, frozen=True, tag="check-in"):
    """From a device to the shuffler: its message of one round.

    ``void``: its owner stays away, and the payload is noise. Neither changes the length.
    """

    round: wire.Count
    id: wire.Id
    void: bool
    payload: bytes


class Gathering(wire.Body, frozen=True, tag="gathering"):
    """From the shuffler to the curator: the reports of one round, permuted.

    ``present`` counts the people who were there, also those who stayed away by their coin; none
    means that the round was not held, and then there are no reports.
    """

    round: wire.Count
    present: wire.Count
    payloads: list[bytes]


def check_in_bytes(payload: int, rounds: int) -> int:
    """Size of a :class:`CheckIn`, void or not, in the last, largest round, unsealed."""
    return len(wire.encode(CheckIn(rounds - 1, bytes(wire.ID_BYTES), False, bytes(payload))))
