"""How much one caller may ask of the hub, and one recipient may leave lying there.

The limits keep a broken or hostile party from costing the others their mail. They are far above
what an honest one needs: a device with cover traffic sends some hundred cells per round.

Whoever sends faster than the rate is not refused but made to wait. A frame may overdraw the
allowance; then the hub reads nothing more from that connection until the debt is paid, and the
network makes the sender wait. Cells are refused as ``flooding`` only where they would overdraw it
by more than a whole burst. With a burst of at least one frame, as by default, that cannot happen to
anyone; with a smaller one, the hub asks for smaller frames in this way.
"""

from __future__ import annotations

from dataclasses import dataclass

from incrowd import checks


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of a hub."""

    rate: int = 16_384
    """Cells per second and connection, in the long run."""
    burst: int = 65_536
    """Cells at once; as many again are taken in before any is refused."""
    quota: int = 65_536
    """Cells that may wait for one device in one survey."""
    helper_quota: int = 1 << 24
    """Cells that may wait for a party to which everybody reports."""
    window: int = 1024
    """Cells pushed to a connection and not yet taken."""
    pipeline: int = 8
    """Frames of one connection that may wait for their commit."""
    greeting_seconds: float = 10.0
    """How long a caller may take to say who it is."""
    keep_seconds: float = 7 * 86_400.0
    """How long a closed survey is remembered."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        for name in ("rate", "burst", "quota", "helper_quota", "window", "pipeline"):
            checks.integer(getattr(self, name), name, 1)


class Bucket:
    """Tokens that come back with time, up to a burst; a burst may also be owed."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, wanted: int, now: float) -> int:
        """As many tokens as there are and may be owed, at most those wanted."""
        tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        got = min(wanted, int(tokens + self._burst))
        self._tokens, self._at = tokens - got, now
        return got

    @property
    def debt(self) -> float:
        """Seconds from the last time on until nothing is owed."""
        return max(0.0, -self._tokens / self._rate)
