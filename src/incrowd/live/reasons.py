"""Why something that arrived was refused: a closed set, so that refusals can be counted.

A refusal is an ordinary event on an open network, not a failure of the survey: the runtime counts
it by reason and goes on. Whatever a decoder of this package is fed, :class:`Rejected` is the only
exception that may escape from it.
"""

from __future__ import annotations

import enum

from incrowd.errors import MessageRejected


class Reason(enum.StrEnum):
    """Every way in which bytes from elsewhere can be unacceptable."""

    malformed = "malformed"
    """It does not decode."""
    oversized = "oversized"
    """It is longer than anything valid."""
    version = "version"
    """It speaks another version of the format."""
    foreign = "foreign"
    """It belongs to another survey or task, or is meant for another party."""
    expired = "expired"
    """It is outside the time for which it was made."""
    unknown = "unknown"
    """Its sender is not on the roster."""
    revoked = "revoked"
    """The authority has withdrawn its sender's certificate."""
    forged = "forged"
    """A signature or tag fails, or it claims a key that belongs to another."""
    replayed = "replayed"
    """It was taken in before."""
    flooding = "flooding"
    """Its sender asks for more than any honest party needs."""
    full = "full"
    """There is no room for it now; it may be sent again."""
    busy = "busy"
    """The store cannot take it now; it may be sent again."""
    unproven = "unproven"
    """A guarantee is stated that cannot be recomputed."""
    equivocal = "equivocal"
    """Others were shown another roster, graph or start."""
    policy = "policy"
    """Its owner's policy does not allow it."""
    budget = "budget"
    """It would cost more than is left of its owner's budget."""
    answered = "answered"
    """The device has reported to this survey before."""
    paused = "paused"
    """Its owner has paused the device."""
    consent = "consent"
    """Its owner did not consent, and wants to leave then."""
    withdrawn = "withdrawn"
    """Its owner withdrew before the start."""


class Rejected(MessageRejected):
    """Something that arrived was refused for a :class:`Reason`."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail
