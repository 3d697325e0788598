"""``incrowd run``: ask everybody, print the answer and its promise, write a report.

Everybody is drawn at once, played as a state machine, or, with ``--live``, a device of its own that
talks to the others over a network on this machine.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from incrowd import checks
from incrowd.cli.options import (
    checked,
    field_option,
    flag,
    keyword,
    named_by_flag,
    number_option,
    signed,
    whole,
)
from incrowd.cli.outcome import (
    NoReportOption,
    ReportOption,
    TableOption,
    check_inputs,
    page_of,
    publish,
    table_of,
    told_of,
    warn_alone,
)
from incrowd.cli.output import Format, FormatOption, note, progress
from incrowd.protocols.settings import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from incrowd.live.options import LiveOptions
    from incrowd.protocols.run import Run
    from incrowd.sim import Faults
    from incrowd.survey import Survey
    from incrowd.survey.pipeline import Progress

_FAULTS = "Faults (with --mode actors)"
LIVE_PANEL = "Live runs (with --live; otherwise as the survey says)"

Mode = Literal["simulate", "actors"]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        help="Draw everybody at once, or play every participant on its own. Default: simulate.",
        show_default=False,
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option("--live", help="Give everybody a device of its own, and run them on a network."),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Make the run repeatable.", parser=whole, metavar="INTEGER"),
]


def run_command() -> Callable[..., None]:
    """The command, with one option for every fault and for everything about live runs."""
    from incrowd.live.options import LiveOptions
    from incrowd.sim import Faults

    devices = number_option(
        "devices", "Ask only so many of the people, with the promise solved for them.", int
    )
    options = [
        keyword("file", Annotated[Path, typer.Argument(help="A survey file.")]),
        keyword("mode", ModeOption, None),
        keyword("live", LiveOption, False),
        keyword("devices", devices, None),
        keyword("seed", SeedOption, None),
        keyword("report", ReportOption, None),
        keyword("no_report", NoReportOption, False),
        keyword("release", TableOption, None),
        keyword("format", FormatOption, Format.table),
        *(field_option(each, panel=_FAULTS) for each in fields_of(Faults).values()),
        *(
            field_option(each, panel=LIVE_PANEL, switch=True)
            for each in fields_of(LiveOptions).values()
        ),
    ]
    return signed(run, "run", "Ask everybody what a survey file asks, on this machine.", options)


def run(given: Mapping[str, Any]) -> None:
    """Ask, account, report, print."""
    from incrowd import survey as surveys
    from incrowd.report.json import merged

    file, live = given["file"], live_asked(given)
    if live is not None and given["mode"] is not None:
        raise typer.BadParameter("contradicts --live", param_hint="'--mode'")
    mode: Mode = given["mode"] or "simulate"
    if given["devices"] is not None:
        checked(checks.crowd, given["devices"], "devices")
    page = page_of(file, given["report"], given["no_report"])
    faults = _faults(mode, given)
    with progress() as say:
        survey = surveys.load(file, progress=say, people=given["devices"])
        table = table_of(survey, given["release"])
        check_inputs(survey.inputs, report=page, release=table)
        if live is not None:
            result = run_over_network(survey, live, say)
        else:
            asked = f"asking {len(survey.values):,} people"
            say(asked)
            result = survey.run(
                mode,
                seed=given["seed"],
                faults=faults,
                progress=lambda done, total: say(asked, done=done, total=total),
            )
        say("computing the promises")
        told = told_of(survey, result, mode, _command(given, result, faults, live))
    warn_alone(merged(told)["details"], result.result.people)
    if table is not None and live is None:
        note("a simulation protects nobody: the released table is only as private as the seed")
    publish(survey, told, page, given["format"], table)


def live_asked(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was asked of a live run, beyond what the survey says; none where none was asked."""
    from incrowd.live.options import LiveOptions

    asked = {name: given[name] for name in fields_of(LiveOptions) if given[name] is not None}
    if not given["live"]:
        for name in asked:
            raise typer.BadParameter("needs --live", param_hint=f"'{flag(name)}'")
        return None
    if given["seed"] is not None:
        raise typer.BadParameter(
            "a live device refuses a seed: what protects a person must not be repeatable",
            param_hint="'--seed'",
        )
    with named_by_flag(asked):
        LiveOptions(**asked)
    return asked


def run_over_network(survey: Survey, asked: Mapping[str, Any], say: Progress) -> Run:
    """Give everybody a device, and let them answer over a network."""
    import msgspec

    def tell(stage: str, done: int, total: int) -> None:
        shown = f"{stage} {done:,} of {total:,}" if total else stage
        say(shown, done=done, total=total)

    options: LiveOptions = msgspec.structs.replace(survey.live, **asked)
    say("starting the devices")
    with named_by_flag(fields_of(type(options))):
        return survey.run_live(options, progress=tell)


def _faults(mode: str, given: Mapping[str, Any]) -> Faults | None:
    """The faults that were asked for; none without actors."""
    from incrowd.sim import Faults

    asked = {name: given[name] for name in fields_of(Faults) if given[name] is not None}
    if mode == "actors":
        with named_by_flag(asked):
            return Faults(**asked)
    for name in asked:
        raise typer.BadParameter("needs --mode actors", param_hint=f"'{flag(name)}'")
    return None


def _command(
    given: Mapping[str, Any], result: Run, faults: Faults | None, live: Mapping[str, Any] | None
) -> str:
    """The command that does the same again."""
    words = ["incrowd", "run", str(given["file"])]
    if given["devices"] is not None:
        words += [flag("devices"), str(given["devices"])]
    if live is not None:
        return shlex.join(words + live_words(live))
    words += [flag("seed"), str(result.seed)]
    if given["mode"] is not None:
        words += [flag("mode"), given["mode"]]
    if faults is not None:
        for field in fields_of(type(faults)).values():
            value = getattr(faults, field.name)
            if value != field.default:
                words += [flag(field.name), str(value)]
    return shlex.join(words)


def live_words(live: Mapping[str, Any]) -> list[str]:
    """The words that ask for a live run like this one."""
    words = [flag("live")]
    for name, value in live.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        else:
            words += [flag(name), str(value)]
    return words
