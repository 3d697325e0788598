"""A command of the protocol's own."""

from __future__ import annotations

from collections.abc import Callable

import typer

from toy_crowd.coin import ToyCoin
from toy_crowd.postbox import ToyPostbox


def price_command() -> Callable[..., None]:
    """Return the command, loaded when it is run."""

    def price(people: int) -> None:
        """Bytes that a crowd of boxes costs."""
        cost = ToyPostbox(ToyCoin(categories=3, epsilon=1.0), n=people).cost()
        typer.echo(f"{people * cost.bytes_per_person:g} bytes")

    return price
