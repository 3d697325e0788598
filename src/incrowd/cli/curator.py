"""``incrowd curator``: offer a survey to a crowd, watch it, and read its result.

Each command is a process of its own: what a curator must remember is in its journal, so a survey
can be opened today, watched by a service, and read tomorrow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from incrowd.cli import connection, outcome
from incrowd.cli.options import MissingOption
from incrowd.cli.output import Format, FormatOption, emit, note, progress
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.live.options import LiveOptions
from incrowd.protocols.run import Run
from incrowd.report.format import count, small, up
from incrowd.survey import Budget, Survey, load_question
from incrowd.survey.parse import parse
from incrowd.survey.people import People
from incrowd.survey.pipeline import PreparedRun
from incrowd.survey.questions import questions_of

if TYPE_CHECKING:
    from incrowd.live.admission import Started
    from incrowd.live.curator import Curator

app = typer.Typer(
    name="curator", no_args_is_help=True, help="Run surveys of your own over a network."
)

FileArgument = Annotated[Path, typer.Argument(help="A survey file.")]
SurveyArgument = Annotated[
    str, typer.Argument(help="The survey, as open printed it; its first digits are enough.")
]


@dataclass(frozen=True)
class _Place:
    """Hub, certificate of its authority, keys and journal of a curator, as given; or none."""

    hub: str | None
    ca: Path | None
    keys: Path | None
    state: Path | None


@app.callback()
def group(
    context: typer.Context,
    hub: Annotated[str | None, connection.HUB] = None,
    ca: Annotated[Path | None, connection.CA] = None,
    keys: Annotated[Path | None, typer.Option(help="Directory of the curator's keys.")] = None,
    state: Annotated[Path | None, typer.Option(help="Directory of the curator's journal.")] = None,
) -> None:
    """Run surveys of your own over a network."""
    context.obj = _Place(hub, ca, keys, state)


@app.command("open")
def open_command(
    context: typer.Context,
    file: FileArgument,
    expires_in: Annotated[
        float, typer.Option(help="Hours after which the survey is over, whatever happened.")
    ] = 24.0,
    format: FormatOption = Format.table,
) -> None:
    """Offer a survey to everyone who is enrolled at the hub."""

    async def work(curator: Curator) -> Any:
        from incrowd.live.curator import propose, timing_of

        devices = await curator.devices()
        if not devices:
            raise InvalidCrowd(f"nobody is enrolled at {context.obj.hub}: start devices first")
        with progress() as say:
            survey = await asyncio.to_thread(load_question, file, len(devices), say)
            say("recomputing the guarantee")
            proposal = await asyncio.to_thread(
                propose,
                survey.protocol,
                survey.task,
                question=survey.text,
                column=survey.column,
                delta=survey.budget.delta,
                roster=devices,
                helpers=await curator.helpers(survey.protocol.helpers),
                keys=curator.keys,
                options=survey.live,
                timing=timing_of(survey.live),
                expires=curator.host.time() + 3600 * expires_in,
            )
        about = {
            "path": str(survey.document.path),
            "text": survey.document.text,
            "budget": survey.budget,
            "solved": survey.only.solved,
            "live": survey.live,
        }
        await curator.open_survey(proposal, msgspec.json.encode(about))
        return proposal

    proposal = _with(context, work)
    stated = {name: getattr(proposal.spec, name) for name in ("question", "people", "min_crowd")}
    keys_of = ("view", "epsilon", "delta")
    stated_guarantees = [
        {name: getattr(x, name) for name in keys_of} for x in proposal.spec.promises
    ]
    payload = {"survey": proposal.survey.hex(), **stated, "guarantees": stated_guarantees}
    emit(payload, lambda console: console.print(_opened(payload), markup=False), format)


@app.command("watch")
def watch_command(
    context: typer.Context,
    survey: SurveyArgument,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for people to join before starting without them.")
    ] = 600.0,
    lead: Annotated[
        float, typer.Option(help="Seconds between the start's publication and the first round.")
    ] = 10.0,
    nats: connection.NatsOption = "",
    listen: Annotated[
        str, typer.Option(help="Address to listen on for a survey that travels directly.")
    ] = "127.0.0.1",
    advertise: connection.AdvertiseOption = None,
    dial: connection.DialOption = None,
    report: outcome.ReportOption = None,
    no_report: outcome.NoReportOption = False,
    table: outcome.TableOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Start a survey when people have joined, and receive what they hand in, until it is all in."""
    page = outcome.page_of(Path(survey), report, no_report)
    outcome.check_table(table)

    async def work(curator: Curator) -> Any:
        chosen = curator.chosen(survey)
        with progress() as say:
            waiting = partial(say, "waiting for people to join")
            started = await curator.gather(chosen, wait=wait, lead=lead, progress=waiting)
            clock = partial(curator.host.clocks.now, chosen)
            run = await curator.receive(started, lambda _: say(*started.stage(clock())))
        return _survey(curator, started), run

    ways = {"nats": nats, "listen": listen, "advertise": advertise}
    rule = connection.dial_rule(dial or ())
    told, run = _with(context, work, dial=rule, **ways)
    _print(told, run, page, table, format)


@app.command("result")
def result_command(
    context: typer.Context,
    survey: SurveyArgument,
    report: outcome.ReportOption = None,
    no_report: outcome.NoReportOption = False,
    table: outcome.TableOption = None,
    format: FormatOption = Format.table,
) -> None:
    """The result of a survey that was watched to its end, with its guarantees recomputed."""
    page = outcome.page_of(Path(survey), report, no_report)
    outcome.check_table(table)

    async def work(curator: Curator) -> Any:
        started, run = await curator.result(curator.chosen(survey))
        return _survey(curator, started), run

    told, run = _with(context, work)
    _print(told, run, page, table, format)


@app.command("close")
def close_command(
    context: typer.Context,
    survey: SurveyArgument,
) -> None:
    """End a survey for everybody; whatever is still on its way is lost."""

    async def work(curator: Curator) -> bytes:
        chosen = curator.chosen(survey)
        await curator.close_survey(chosen)
        return chosen

    note(f"survey {_with(context, work).hex()} is closed")


T = TypeVar("T")


def _with(context: typer.Context, work: Callable[[Curator], Awaitable[T]], **ways: Any) -> T:
    """Do something as the curator of the group's options, connected to the hub in these ways."""
    hub, ca, keys, state = _complete(context.obj)
    from incrowd.live.curator import Curator
    from incrowd.live.host import Host, Network
    from incrowd.live.journal import Journal
    from incrowd.live.keys import PrivateKeys, Role, private_directory
    from incrowd.live.service import JOURNAL_FILE

    mine = PrivateKeys.load(keys)
    if mine.role is not Role.curator:
        raise InvalidParameter(f"the keys in {keys} are those of a {mine.role}, not of a curator")
    private_directory(state)

    async def connected() -> T:
        with Journal(state / JOURNAL_FILE) as journal:
            async with Host(Network(hub, ca, **ways), journal) as host:
                curator = Curator(mine, host, keys)
                try:
                    await curator.enrol()
                    await curator.open()
                    return await work(curator)
                finally:
                    await curator.close()

    return asyncio.run(connected())


def _complete(place: _Place) -> tuple[str, Path, Path, Path]:
    """Refuse a group without one of its options; help of its commands needs none of them."""
    given: dict[str, Any] = asdict(place)
    for name, value in given.items():
        if value is None:
            raise MissingOption(name, "give it before the command, as in 'incrowd curator --hub …'")
    return given["hub"], given["ca"], given["keys"], given["state"]


def _survey(curator: Curator, started: Started) -> Survey:
    """Return the survey as it was opened, of the people who took part."""
    spec = started.offer.spec
    about = msgspec.json.decode(curator.about(spec.survey))
    document = replace(
        parse(about["text"], Path(about["path"])),
        budget=msgspec.convert(about["budget"], Budget),
        live=msgspec.convert(about["live"], LiveOptions),
    )
    run = PreparedRun(questions_of(document), started.protocol, about["solved"])
    return Survey(document, People(spec.people), (run,))


def _print(survey: Survey, run: Run, page: Path | None, table: Path | None, format: Format) -> None:
    # The survey is over: what was asked for by mistake must not cost its result.
    if table is not None and not survey.task.releases(survey.column):
        note(f"--table: a {survey.task.kind} releases no table")
        table = None
    table = outcome.table_of(survey, table)
    document = outcome.document_of(survey, run, "live", "incrowd curator result")
    outcome.publish(survey, document, page, format, table)


def _opened(payload: dict[str, Any]) -> str:
    guarantees = "".join(
        f"\n  ε = {up(each['epsilon'])} at δ = {small(each['delta'])} against {each['view']}"
        for each in payload["guarantees"]
    )
    return (
        f"survey {payload['survey']}: {payload['question']}\n"
        f"offered to {count(payload['people'])} people, of whom at least "
        f"{count(payload['min_crowd'])} must join, with{guarantees}\n"
        f"go on with: incrowd curator watch {payload['survey'][:8]} …"
    )
