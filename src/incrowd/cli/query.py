"""``incrowd query``: an SQL aggregate of people's tuples, hidden from whoever watches them talk.

The options are turned into the text of a survey file, and that is run like any other: what the
command does can be kept, changed and run again with ``incrowd run``. What is left out of how
messages travel is chosen for the budget, within the limits.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd import checks
from incrowd.cli.options import (
    Error,
    checked,
    field_option,
    flag,
    keyword,
    name_by_flag,
    named_by_flag,
    number_option,
    signed,
)
from incrowd.cli.outcome import check_inputs, page_of, publish, told_of
from incrowd.cli.output import Format, FormatOption, note, progress
from incrowd.cli.run import (
    LIVE_PANEL,
    LiveOption,
    SeedOption,
    live_asked,
    live_words,
    run_over_network,
)
from incrowd.protocols import load
from incrowd.protocols.capabilities import Tunable, drawing_of
from incrowd.protocols.settings import Field, fields_of
from incrowd.survey.parse import Origin, SurveyFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from incrowd.survey.prepared import Survey

_NAME = "query"
"""What the survey that is made from the options is called."""
_KIND = "scrambler"
"""The protocol that answers queries."""
_TARGETS = 8
"""Compute nodes per grouping set, unless given."""
_TEXTS = {
    "targets": f"Compute nodes that share the cells of each grouping set. Default: {_TARGETS}.",
    **{
        name: f"{text} Default: chosen."
        for name, text in (
            ("sampling", "Chance that a message goes to a compute node at random, without tuple."),
            ("sources", "People whose messages one scrambler mixes."),
            ("dummies", "Messages without a tuple that a scrambler adds."),
        )
    },
}
"""What is said of options whose default is another one here."""
_COUNTED = ("n", "grouping_sets")
"""What the data and the query say by themselves."""
_HOW = "How messages travel (what is left out is chosen for the budget)"
_LIMITS = "Limits within which it is chosen"

SqlArgument = Annotated[
    str,
    typer.Argument(
        help="SELECT columns, aggregates FROM table [WHERE …] [GROUP BY …]: COUNT, SUM, AVG, MIN, "
        "MAX, VAR; GROUPING SETS, ROLLUP, CUBE."
    ),
]
DataOption = Annotated[Path, typer.Option("--data", help="A CSV file, one person per row.")]
SchemaOption = Annotated[
    Path, typer.Option("--schema", help="A TOML file with the columns and their domains.")
]
ViewOption = Annotated[
    str,
    typer.Option(
        "--view", help="Whom the promise is against: network, or curator+network with --release."
    ),
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Draw the plan first, and say what an observer can learn.")
]
DrawOption = Annotated[
    Path | None,
    typer.Option("--draw", help="Write a drawing of the plan to an SVG file.", show_default=False),
]
PageOption = Annotated[
    Path | None,
    typer.Option("--report", help="Write a report to this HTML file.", show_default=False),
]


def query_command() -> Callable[..., None]:
    """The command, with an option for everything about scramblers, limits and live runs."""
    from incrowd.live.options import LiveOptions

    devices = number_option("devices", "Ask only the people of so many first rows.", int)
    options = [
        keyword("sql", SqlArgument),
        keyword("data", DataOption),
        keyword("schema", SchemaOption),
        keyword("epsilon", number_option("epsilon", "The ε to be promised.", float), None),
        keyword("delta", number_option("delta", "The slack δ of the promise.", float), None),
        keyword("view", ViewOption, "network"),
        keyword("explain", ExplainOption, False),
        keyword("draw", DrawOption, None),
        keyword("live", LiveOption, False),
        keyword("devices", devices, None),
        keyword("seed", SeedOption, None),
        keyword("report", PageOption, None),
        keyword("format", FormatOption, Format.table),
        *(
            field_option(each, text=_TEXTS.get(each.name), panel=_HOW)
            for each in _travel().values()
        ),
        *(field_option(each, _limit(each.name), panel=_LIMITS) for each in _limits().values()),
        *(
            field_option(each, panel=LIVE_PANEL, switch=True)
            for each in fields_of(LiveOptions).values()
        ),
    ]
    return signed(query, "query", "Answer an SQL aggregate between people's devices.", options)


def query(given: Mapping[str, Any]) -> None:
    """Plan, draw, ask, account, print."""
    from incrowd import survey as surveys
    from incrowd.report import require_writable

    epsilon, delta = (_needed(given, name) for name in ("epsilon", "delta"))
    live = live_asked(given)
    if given["devices"] is not None:
        checked(checks.crowd, given["devices"], "devices")
    page = None if given["report"] is None else page_of(given["data"], given["report"], False)
    if given["draw"] is not None:
        require_writable(given["draw"])
    with progress() as say, named_by_flag(_travel()):
        file = SurveyFile(Path(_NAME), _text(given, epsilon, delta), _Options(_NAME))
        survey = surveys.build(file, say, people=given["devices"])
        check_inputs(survey.inputs, report=page, draw=given["draw"])
        if given["draw"] is not None:
            _draw(survey, given["draw"])
        if live is not None:
            result = run_over_network(survey, live, say)
        else:
            say(f"asking {len(survey.values):,} people")
            result = survey.run(seed=given["seed"])
        say("computing the promises")
        command = _command(given, result.seed, live)
        told = told_of(survey, result, "simulate", command, explain=given["explain"])
    publish(survey, told, page, given["format"])


class _Options(Origin):
    """Source of a survey's settings: the options, which its errors name."""

    def key(self, table: str, key: str) -> str:
        """Name of the option that stands for a key."""
        return flag(_limit(key) if table == "limits" else key)

    def locate(self, error: Error, table: str | None = None) -> Error:
        """Name the option that is wrong; there is no file to name."""
        names = {
            "task": ("data", "schema"),
            "budget": ("epsilon", "delta", "view"),
            "protocol": tuple(_travel()),
            "limits": tuple(_limits()),
        }
        renamed = {name: _limit(name) for name in _limits()} if table == "limits" else {}
        return name_by_flag(error, names.get(table or "", ()), renamed)


def _needed(given: Mapping[str, Any], name: str) -> float:
    from incrowd.cli.options import MissingOption

    if given[name] is None:
        raise MissingOption(name, "a query needs a budget")
    check = {"epsilon": checks.epsilon, "delta": checks.delta}[name]
    return float(checked(check, given[name], name))


def _travel() -> dict[str, Field]:
    """What can be said about how messages travel."""
    fields = fields_of(load(_KIND).parameters_type)
    return {name: each for name, each in fields.items() if name not in _COUNTED}


def _limits() -> dict[str, Field]:
    kind = load(_KIND)
    return fields_of(kind.limits_type) if issubclass(kind, Tunable) else {}


def _limit(name: str) -> str:
    return f"max_{name}"


def _text(given: Mapping[str, Any], epsilon: float, delta: float) -> str:
    """The survey file that says the same as the options."""
    chosen = {name: given[name] for name in _travel() if given[name] is not None}
    tables: dict[str, dict[str, Any]] = {
        "task": {
            "kind": "query",
            "sql": given["sql"],
            "data": str(given["data"]),
            "schema": str(given["schema"]),
        },
        "budget": {"epsilon": epsilon, "delta": delta, "view": given["view"]},
        "protocol": {"kind": _KIND, "targets": _TARGETS} | chosen,
        "limits": {
            name: given[_limit(name)] for name in _limits() if given[_limit(name)] is not None
        },
    }
    return "\n\n".join(
        "\n".join([f"[{name}]", *(f"{key} = {_value(each)}" for key, each in table.items())])
        for name, table in tables.items()
        if table
    )


def _value(value: Any) -> str:
    """A value as TOML writes it; its strings are those of JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _draw(survey: Survey, path: Path) -> None:
    drawn = drawing_of(survey.protocol)
    if drawn is not None:
        path.write_text(drawn.svg, encoding="utf-8")
        note(f"the plan is drawn in {path}")


def _command(given: Mapping[str, Any], seed: int | None, live: Mapping[str, Any] | None) -> str:
    """The command that does the same again."""
    words = ["incrowd", "query", given["sql"]]
    named = ("data", "schema", "epsilon", "delta", "view", "devices", *_travel())
    settings = {name: given[name] for name in (*named, *map(_limit, _limits()))}
    for name, value in settings.items():
        if value is not None:
            words += [flag(name), str(value)]
    return shlex.join(words + (["--seed", str(seed)] if live is None else live_words(live)))
