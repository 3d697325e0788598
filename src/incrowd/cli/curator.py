"""``incrowd curator``: offer a survey to a crowd, watch it, and read its result.

Each command is a process of its own: what a curator must remember is in its journal, so a survey
can be opened today, watched by a service, and read tomorrow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd.cli.output import Format, FormatOption, emit, note, progress
from incrowd.errors import InvalidParameter

if TYPE_CHECKING:
    from incrowd.live.curator import Curator
    from incrowd.protocols.base import Run
    from incrowd.survey import Survey

__all__ = ["app"]

app = typer.Typer(
    name="curator", no_args_is_help=True, help="Run surveys of your own over a network."
)

HubOption = Annotated[str, typer.Option("--hub", help="Address of the hub, https://…")]
AuthorityOption = Annotated[
    Path, typer.Option("--authority", help="Certificate of the authority to trust.")
]
KeysOption = Annotated[Path, typer.Option("--keys", help="Directory of the curator's keys.")]
StateOption = Annotated[Path, typer.Option("--state", help="Directory for the curator's journal.")]
FileArgument = Annotated[Path, typer.Argument(help="A survey file.")]
SurveyArgument = Annotated[
    str, typer.Argument(help="The survey, as open printed it; its first digits are enough.")
]
NatsOption = Annotated[str, typer.Option("--nats", help="Server for surveys that travel over NATS.")]


@app.command("open")
def open_command(
    file: FileArgument,
    hub: HubOption,
    authority: AuthorityOption,
    keys: KeysOption,
    state: StateOption,
    valid: Annotated[
        float, typer.Option(help="Hours after which the survey is over, whatever happened.")
    ] = 24.0,
    format: FormatOption = Format.table,
) -> None:
    """Offer a survey to everyone who is enrolled at the hub."""
    from incrowd import survey as surveys

    async def work(curator: Curator) -> Any:
        from incrowd.live.curator import propose, timing_of

        devices = await curator.devices()
        with progress() as say:
            survey = await asyncio.to_thread(
                surveys.load_question, file, people=len(devices), progress=say
            )
            say("recomputing the promise")
            proposal = await asyncio.to_thread(
                propose,
                survey.protocol,
                survey.task,
                question=survey.question,
                column=survey.column,
                delta=survey.budget.delta,
                roster=devices,
                helpers=await curator.helpers(survey.protocol.helpers),
                keys=curator.keys,
                options=survey.live,
                timing=timing_of(survey.live),
                expires=curator.host.time() + 3600 * valid,
            )
        about = {"text": survey.text, "budget": msgspec.to_builtins(survey.budget)}
        await curator.open_survey(proposal, msgspec.json.encode(about))
        return proposal

    proposal = _with(hub, authority, keys, state, "", work)
    payload = {
        "survey": proposal.survey.hex(),
        "question": proposal.spec.question,
        "people": proposal.spec.people,
        "min_crowd": proposal.spec.min_crowd,
        "promises": [
            {"view": each.view, "epsilon": each.epsilon, "delta": each.delta}
            for each in proposal.spec.promises
        ],
    }
    emit(payload, lambda console: console.print(_opened(payload), markup=False), format)


@app.command("watch")
def watch_command(
    survey: SurveyArgument,
    hub: HubOption,
    authority: AuthorityOption,
    keys: KeysOption,
    state: StateOption,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for people to join before starting without them.")
    ] = 600.0,
    lead: Annotated[
        float, typer.Option(help="Seconds between the start's publication and the first round.")
    ] = 10.0,
    nats: NatsOption = "",
    format: FormatOption = Format.table,
) -> None:
    """Start a survey when people have joined, and receive what they hand in, until it is all in."""

    async def work(curator: Curator) -> Any:
        chosen = curator.chosen(survey)
        with progress() as say:
            started = await curator.gather(
                chosen,
                wait=wait,
                lead=lead,
                progress=lambda done, total: say("waiting for people to join", done, total),
            )
            return started, await curator.receive(
                started, lambda _: say(*started.stage(curator.host.time()))
            )

    started, run = _with(hub, authority, keys, state, nats, work)
    _print(started, run, format)


@app.command("result")
def result_command(
    survey: SurveyArgument,
    hub: HubOption,
    authority: AuthorityOption,
    keys: KeysOption,
    state: StateOption,
    format: FormatOption = Format.table,
) -> None:
    """The result of a survey that was watched to its end, with its promises recomputed."""

    async def work(curator: Curator) -> Any:
        return await curator.result(curator.chosen(survey))

    started, run = _with(hub, authority, keys, state, "", work)
    _print(started, run, format)


@app.command("close")
def close_command(
    survey: SurveyArgument,
    hub: HubOption,
    authority: AuthorityOption,
    keys: KeysOption,
    state: StateOption,
) -> None:
    """End a survey for everybody; whatever is still on its way is lost."""

    async def work(curator: Curator) -> bytes:
        chosen = curator.chosen(survey)
        await curator.close_survey(chosen)
        return chosen

    note(f"survey {_with(hub, authority, keys, state, '', work).hex()} is closed")
