"""``incrowd hub``: run the hub of live surveys."""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path
from typing import Annotated

import typer


class LogFormat(enum.StrEnum):
    """Form of the log on standard error."""

    json = "json"
    text = "text"


def hub(
    keys: Annotated[
        Path, typer.Option(help="The hub's own directory of keys, with its certificate.")
    ],
    ca: Annotated[Path, typer.Option(help="The authority's certificate, or its directory.")],
    store: Annotated[
        str, typer.Option(help="A path, sqlite:///path or postgresql://user@host/name.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")
    ] = 0,
    rate: Annotated[
        int, typer.Option(min=1, help="Cells per second from one connection.")
    ] = 16_384,
    quota: Annotated[int, typer.Option(min=1, help="Cells that may wait for one device.")] = 65_536,
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of the log on standard error.")
    ] = LogFormat.json,
) -> None:
    """Run a registry of keys and a mailbox of sealed cells; it can open none of them."""
    from incrowd.live.hub import events, limits, server

    events.configure(log_format.value)
    bounds = limits.Limits(rate=rate, burst=4 * rate, quota=quota)
    server.run(keys, ca, store, host, port, _ready, bounds)


def _ready(url: str) -> None:
    sys.stdout.write(json.dumps({"ready": True, "url": url}) + "\n")
    sys.stdout.flush()
