"""Options and errors of commands that connect to a network of live surveys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from incrowd.errors import MissingExtra

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


@contextmanager
def live_packages(needs: str) -> Iterator[None]:
    """Name the extra to install where an import fails; ``needs`` is the sentence's beginning."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).startswith("incrowd"):
            raise
        advice = "install it with pip install 'incrowd[live]'"
        raise MissingExtra(f"{needs} {error.name}: {advice}") from error
