"""The option that names private addresses which a party without a policy may connect to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from incrowd.live.policy import NetworkRule

DialOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dial",
        help="Loopback or private network to connect to in direct surveys; may be repeated.",
    ),
]


def dial_rule(networks: Sequence[str]) -> NetworkRule:
    """The rule that allows these networks besides public ones."""
    from incrowd.live.policy import NetworkRule

    try:
        return NetworkRule(dial=tuple(networks))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--dial'") from error
