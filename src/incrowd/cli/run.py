"""``incrowd run``: ask everybody, print the answer and its promise, write a report.

Everybody is drawn at once, played as a state machine, or, with ``--live``, a device of its own that
talks to the others over a network on this machine.
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
from incrowd.report.json import merged
from incrowd.sim import Faults
from incrowd.survey.pipeline import Progress
from incrowd.survey.prepared import Mode, Survey, chosen_faults

_FAULTS = "Faults (with --mode actors)"
_LIVE_PANEL = "Live runs (with --live; otherwise as the survey says)"
_MODE = "Draw everybody at once, or play every participant on its own. Default: simulate."
_DEVICES = "Ask only so many of the people, with the promise solved for them."
_LIVE = "Give everybody a device of its own, and run them on a network."
LIVE = options.keyword("live", Annotated[bool, typer.Option("--live", help=_LIVE)], False)
SEED = options.number("seed", "Make the run repeatable.", int)


def run_command() -> Callable[..., None]:
    """Return the command, with an option for every fault and for everything about live runs."""
    parameters = [
        options.keyword("file", Annotated[Path, typer.Argument(help="A survey file.")]),
        options.option("mode", Mode, _MODE),
        LIVE,
        options.number("devices", _DEVICES, int),
        SEED,
        options.keyword("report", outcome.ReportOption, None),
        options.keyword("no_report", outcome.NoReportOption, False),
        options.keyword("release", outcome.TableOption, None),
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
    if live is not None and given["mode"] is not None:
        raise typer.BadParameter("contradicts --live", param_hint="'--mode'")
    mode: Mode = given["mode"] or "simulate"
    options.checked(checks.crowd, given["devices"], "devices")
    page = outcome.page_of(file, given["report"], given["no_report"])
    faults = _faults(mode, given)
    with progress() as say:
        survey = surveys.load(file, progress=say, people=given["devices"])
        table = outcome.table_of(survey, given["release"])
        outcome.check_inputs(survey.inputs, report=page, release=table)
        result = ask(survey, live, say, given["seed"], mode, faults)
        say("computing the promises")
        told = outcome.told_of(survey, result, mode, _command(given, result, faults, live))
    outcome.warn_alone(merged(told)["details"], result.result.people)
    if table is not None and live is None:
        note("a simulation protects nobody: the released table is only as private as the seed")
    outcome.publish(survey, told, page, given["format"], table)


def live_options() -> list[inspect.Parameter]:
    """An option for everything about live runs."""
    fields = fields_of(LiveOptions).values()
    return [options.field_option(each, panel=_LIVE_PANEL, switch=True) for each in fields]


def live_asked(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was asked of a live run, beyond what the survey says; none where none was asked."""
    asked = {name: given[name] for name in fields_of(LiveOptions) if given[name] is not None}
    if not given["live"]:
        for name in asked:
            raise typer.BadParameter("needs --live", param_hint=f"'{options.flag(name)}'")
        return None
    if given["seed"] is not None:
        problem = "a live device refuses a seed: what protects a person must not be repeatable"
        raise typer.BadParameter(problem, param_hint="'--seed'")
    with options.named_by_flag(asked):
        LiveOptions(**asked)
    return asked


def ask(
    survey: Survey,
    live: Mapping[str, Any] | None,
    say: Progress,
    seed: int | None,
    mode: Mode = "simulate",
    faults: Faults | None = None,
) -> Run:
    """Ask everybody, by a device of their own where a live run was asked for."""
    if live is not None:
        return _over_network(survey, live, say)
    stage = f"asking {len(survey.values):,} people"
    say(stage)
    return survey.run(mode, seed=seed, faults=faults, progress=partial(say, stage))


def _over_network(survey: Survey, asked: Mapping[str, Any], say: Progress) -> Run:
    def tell(stage: str, done: int, total: int) -> None:
        say(f"{stage} {done:,} of {total:,}" if total else stage, done, total)

    say("starting the devices")
    with options.named_by_flag(fields_of(type(survey.live))):
        return survey.run_live(msgspec.structs.replace(survey.live, **asked), progress=tell)


def _faults(mode: str, given: Mapping[str, Any]) -> Faults | None:
    asked = {name: given[name] for name in fields_of(Faults) if given[name] is not None}
    if mode == "actors":
        with options.named_by_flag(asked):
            return Faults(**asked)
    for name in asked:
        raise typer.BadParameter("needs --mode actors", param_hint=f"'{options.flag(name)}'")
    return None


def _command(
    given: Mapping[str, Any], result: Run, faults: Faults | None, live: Mapping[str, Any] | None
) -> str:
    """Return the command that does the same again."""
    how: dict[str, Any] = {"devices": given["devices"]}
    if live is None:
        how |= {"seed": result.seed, "mode": given["mode"], **chosen_faults(faults)}
    else:
        how |= {"live": True, **live}
    return shlex.join(["incrowd", "run", str(given["file"]), *options.words_of(how)])
