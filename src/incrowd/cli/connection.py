"""Options and errors of commands that connect to a network of live surveys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from incrowd.live.policy import NetworkRule

HUB = typer.Option(help="Address of the hub, https://…")
CA = typer.Option(help="Certificate of the authority to trust.")
HubOption = Annotated[str, HUB]
CaOption = Annotated[Path, CA]
NatsOption = Annotated[str, typer.Option(help="Server for surveys that travel over NATS.")]
AdvertiseOption = Annotated[
    str | None, typer.Option(help="Address under which other parties reach it, where it differs.")
]
DialOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Loopback or private network to connect to in direct surveys; may be repeated."
    ),
]


def dial_rule(networks: Sequence[str]) -> NetworkRule:
    """Return the rule of a party without a policy: these networks besides public ones."""
    from incrowd.live.policy import NetworkRule

    try:
        return NetworkRule(dial=tuple(networks))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--dial'") from error
