"""What a survey may say about a live run: the ``[live]`` table of its file."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from incrowd import checks
from incrowd.errors import InvalidParameter

TransportKind = Literal["hub", "direct", "nats"]


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a survey is run over a network."""

    cover: Annotated[
        bool,
        msgspec.Meta(
            description="send the same cells to every contact in every round, real or dummy, so "
            "that traffic shows nothing"
        ),
    ] = False
    transport: Annotated[
        TransportKind,
        msgspec.Meta(description="through the hub, directly between devices, or over NATS"),
    ] = "hub"
    min_crowd: Annotated[
        int,
        msgspec.Meta(
            description="people with certified keys who must take part, else nobody answers"
        ),
    ] = 2
    round_seconds: Annotated[
        float | None,
        msgspec.Meta(
            description="length of a round; without it, long enough for this machine to play all"
        ),
    ] = None
    grace_rounds: Annotated[
        int, msgspec.Meta(description="rounds after the last one in which what is late comes in")
    ] = 3
    timeout: Annotated[
        float, msgspec.Meta(description="time to wait for the last people, in seconds")
    ] = 60.0
    nats: Annotated[
        str, msgspec.Meta(description="address of the NATS server, for that transport")
    ] = ""

    def __post_init__(self) -> None:
        """Refuse crowds and times that make no sense."""
        checks.integer(self.min_crowd, "min_crowd", 1)
        checks.integer(self.grace_rounds, "grace_rounds", 1)
        for name in ("round_seconds", "timeout"):
            value = getattr(self, name)
            if value is not None and checks.number(value, name) <= 0:
                raise InvalidParameter(
                    f"{name} must be a positive number of seconds, got {value}", field=name
                )
        if self.transport not in ("hub", "direct", "nats"):
            raise InvalidParameter(
                f"transport must be hub, direct or nats, got {self.transport!r}", field="transport"
            )
