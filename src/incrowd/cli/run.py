"""``incrowd run``: ask everybody, print the answer and its guarantee, write a report.

Everybody is drawn at once, played as a state machine, or, with ``--engine live``, a device of its
own that talks to the others over a network on this machine.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from incrowd import checks
from incrowd import survey as surveys
from incrowd.cli import options, outcome
from incrowd.cli.output import Format, FormatOption, note, progress
from incrowd.live.options import LiveOptions
from incrowd.protocols.run import Run
from incrowd.protocols.settings import fields_of
from incrowd.sim import Faults
from incrowd.survey.pipeline import Progress
from incrowd.survey.prepared import Engine, Survey, chosen_faults

_FAULTS = "Faults (with --engine actors)"
_LIVE = "Live runs (with --engine live; otherwise as the survey says)"
_ENGINE = (
    "Draw everybody at once, play every participant on its own, or give everybody a device on a "
    "network. Default: simulate."
)
_PEOPLE = "Ask only n of the people, with the guarantee solved for them."
ENGINE = options.option("engine", Engine, _ENGINE)
SEED = options.number("seed", "Make the run repeatable.", int)


def run_command() -> Callable[..., None]:
    """Return the command, with an option for every fault and for everything about live runs."""
    parameters = [
        options.keyword("file", Annotated[Path, typer.Argument(help="A survey file.")]),
        ENGINE,
        options.number("n", _PEOPLE, int),
        SEED,
        options.keyword("report", outcome.ReportOption, None),
        options.keyword("no_report", outcome.NoReportOption, False),
        options.keyword("table", outcome.TableOption, None),
        options.keyword("format", FormatOption, Format.table),
        *(options.field_option(each, panel=_FAULTS) for each in fields_of(Faults).values()),
        *live_options(),
    ]
    return options.signed(
        run, "run", "Ask everybody what a survey file asks, on this machine.", parameters
    )


def run(given: Mapping[str, Any]) -> None:
    """Ask, account, report, print."""
    file, live = given["file"], live_asked(given)
    check_counts(given)
    page = outcome.page_of(file, given["report"], given["no_report"])
    faults = _faults(given)
    with progress() as say:
        survey = surveys.load(file, progress=say, people=given["n"])
        table = outcome.table_of(survey, given["table"])
        outcome.check_inputs(survey.inputs, report=page, table=table)
        result = ask(survey, given, live, say, faults)
    command = _command(given, result, faults, live)
    document = outcome.document_of(survey, result, engine_of(given), command)
    if table is not None and live is None:
        note("a simulation protects nobody: the released table is only as private as the seed")
    outcome.publish(survey, document, page, given["format"], table)


def check_counts(given: Mapping[str, Any]) -> None:
    """Refuse a number of people or a seed that cannot be, before anything is read."""
    options.checked(checks.crowd, given["n"], "n")
    options.checked(partial(checks.integer, at_least=0), given["seed"], "seed")


def live_options() -> list[inspect.Parameter]:
    """An option for everything about live runs."""
    fields = fields_of(LiveOptions).values()
    return [options.field_option(each, panel=_LIVE, switch=True) for each in fields]


def engine_of(given: Mapping[str, Any]) -> Engine:
    """Engine that was asked for."""
    engine: Engine = given["engine"] or "simulate"
    return engine


def live_asked(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was asked of a live run, beyond what the survey says; none where none was asked."""
    asked = {name: given[name] for name in fields_of(LiveOptions) if given[name] is not None}
    if engine_of(given) != "live":
        for name in asked:
            raise typer.BadParameter("needs --engine live", param_hint=f"'{options.flag(name)}'")
        return None
    if given["seed"] is not None:
        problem = "a live device refuses a seed: what protects a person must not be repeatable"
        raise typer.BadParameter(problem, param_hint="'--seed'")
    with options.named_by_flag(asked):
        LiveOptions(**asked)
    return asked


def ask(
    survey: Survey,
    given: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    say: Progress,
    faults: Faults | None = None,
) -> Run:
    """Ask everybody with the engine that was asked for; ``live`` as of :func:`live_asked`."""
    if live is not None:
        return _over_network(survey, live, say)
    stage = f"asking {len(survey.values):,} people"
    say(stage)
    engine, seed = engine_of(given), given["seed"]
    return survey.run(engine, seed=seed, faults=faults, progress=partial(say, stage))


def _over_network(survey: Survey, asked: Mapping[str, Any], say: Progress) -> Run:
    say("starting the devices")
    with options.named_by_flag(fields_of(type(survey.live))):
        return survey.run_live(msgspec.structs.replace(survey.live, **asked), progress=say)


def _faults(given: Mapping[str, Any]) -> Faults | None:
    asked = {name: given[name] for name in fields_of(Faults) if given[name] is not None}
    if engine_of(given) == "actors":
        with options.named_by_flag(asked):
            return Faults(**asked)
    for name in asked:
        raise typer.BadParameter("needs --engine actors", param_hint=f"'{options.flag(name)}'")
    return None


def _command(
    given: Mapping[str, Any], result: Run, faults: Faults | None, live: Mapping[str, Any] | None
) -> str:
    """Return the command that does the same again."""
    how: dict[str, Any] = {"n": given["n"], "seed": result.seed, "engine": given["engine"]}
    how |= chosen_faults(faults) if live is None else live
    return shlex.join(["incrowd", "run", str(given["file"]), *options.words_of(how)])
