"""``incrowd device``: take part in surveys for the owners of devices, within what they allow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from incrowd.cli import backup, connection, owner
from incrowd.cli.policy import app as policies

app = typer.Typer(help="Take part in surveys for the owners of devices.", no_args_is_help=True)


@app.command()
def run(
    hub: connection.HubOption,
    ca: connection.CaOption,
    state: owner.StateOption,
    keys: Annotated[
        Path | None,
        typer.Option(help="Directory of this device's keys; with --count, of all of theirs."),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Table of answers (CSV of mode 0600, or - for standard input): one row, or one "
            "per name in column device."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Policy of the owners (TOML); without one everything is declined."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="Number of devices to host in this process.", min=1)
    ] = None,
    offset: Annotated[
        int,
        typer.Option(
            help="With --count: number of devices to leave out, in the order of their names.", min=0
        ),
    ] = 0,
    helper: Annotated[
        list[Path] | None,
        typer.Option(help="Keys of a helper to host, such as a shuffler; without --keys, alone."),
    ] = None,
    nats: connection.NatsOption = "",
    listen: Annotated[
        str, typer.Option(help="Address to listen on for surveys that travel directly.")
    ] = "127.0.0.1",
    advertise: connection.AdvertiseOption = None,
    dial: connection.DialOption = None,
) -> None:
    """Take part in surveys for the owners of devices, until stopped.

    Prints one line of JSON when connected, and another with totals at the end.
    """
    from incrowd.live.answers import AnswerBook
    from incrowd.live.host import Network
    from incrowd.live.policy_file import read_policy
    from incrowd.live.service import key_directories, serve
    from incrowd.protocols import PROTOCOLS

    if keys is None and not helper:
        problem = "say whose keys to host, or give those of a --helper"
        raise typer.BadParameter(problem, param_hint="'--keys'")
    if keys is None and (policy or answers or count or offset):
        problem = "answers, a policy and a number of devices need the keys of their owners"
        raise typer.BadParameter(problem, param_hint="'--keys'")
    if keys is not None and dial:
        problem = "what devices may dial is in their owners' policy, under [network]"
        raise typer.BadParameter(problem, param_hint="'--dial'")
    allowed = None if policy is None else read_policy(policy, PROTOCOLS)
    rule = connection.dial_rule(dial or ()) if allowed is None else allowed.network
    network = Network(hub, ca, nats=nats, listen=listen, advertise=advertise, dial=rule)
    serving = serve(
        network,
        state,
        [] if keys is None else key_directories(keys, offset, count),
        answers=AnswerBook({}) if answers is None else AnswerBook.read(answers),
        policy=allowed,
        helpers=helper or [],
        ready=lambda members: _say({"ready": True, "members": members}),
    )
    _say(asyncio.run(serving))


def _say(told: Any) -> None:
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    sys.stdout.flush()


app.add_typer(policies, name="policy")
_OWN: tuple[Callable[..., None], ...] = (owner.consent, owner.pause, owner.resume, owner.withdraw)
for _command in (*_OWN, backup.backup, backup.move, backup.restore):
    app.command()(_command)
