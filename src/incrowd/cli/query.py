"""``incrowd query``: an SQL aggregate of people's tuples, hidden from observers of the network.

The options are turned into the text of a survey file, which is run like any other. Settings of the
scramblers that are left out are chosen for the budget, within the limits.
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
    MissingOption,
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
from incrowd.protocols.settings import Field, fields_of, settings_type
from incrowd.survey.parse import Origin, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Parameter

_NAME = "query"
"""Name of the survey that is made from the options."""
_KIND = "scrambler"
_TARGETS = 8
_TEXTS = {
    "targets": f"Compute nodes that share the cells of each grouping set. Default: {_TARGETS}.",
    "sampling": "Chance that a message goes to a compute node at random, without tuple. "
    "Default: chosen.",
    "sources": "People whose messages one scrambler mixes. Default: chosen.",
    "dummies": "Messages without a tuple that a scrambler adds. Default: chosen.",
}
"""Help of options whose default is another one here."""
_COUNTED = ("n", "grouping_sets")
"""Parameters that follow from the data and the query."""
_HOW = "How messages travel (what is left out is chosen for the budget)"
_LIMITS = "Limits within which it is chosen"
_SQL = (
    "SELECT columns, aggregates FROM table [WHERE …] [GROUP BY …]: COUNT, SUM, AVG, MIN, "
    "MAX, VAR; GROUPING SETS, ROLLUP, CUBE."
)


def query_command() -> Callable[..., None]:
    """Return the command, with an option for every setting of scramblers, limits and live runs."""
    from incrowd.live.options import LiveOptions

    def option(kind: Any, name: str, text: str, *default: Any, **more: Any) -> Parameter:
        return keyword(name, Annotated[kind, typer.Option(flag(name), help=text, **more)], *default)

    def number(name: str, text: str, kind: type) -> Parameter:
        return keyword(name, number_option(name, text, kind), None)

    view = "Whom the promise is against: network, or curator+network with --release."
    draw = "Write a drawing of the plan to an SVG file."
    report = "Write a report to this HTML file."
    options = [
        keyword("sql", Annotated[str, typer.Argument(help=_SQL)]),
        option(Path, "data", "A CSV file, one person per row."),
        option(Path, "schema", "A TOML file with the columns and their domains."),
        number("epsilon", "The ε to be promised.", float),
        number("delta", "The slack δ of the promise.", float),
        option(str, "view", view, "network"),
        option(bool, "explain", "Draw the plan first, and say what an observer can learn.", False),
        option(Path | None, "draw", draw, None, show_default=False),
        keyword("live", LiveOption, False),
        number("devices", "Ask only the people of so many first rows.", int),
        keyword("seed", SeedOption, None),
        option(Path | None, "report", report, None, show_default=False),
        keyword("format", FormatOption, Format.table),
    ]
    travel, limits, live = _travel().values(), _limits().values(), fields_of(LiveOptions).values()
    options += [field_option(each, text=_TEXTS.get(each.name), panel=_HOW) for each in travel]
    options += [field_option(each, _limit(each.name), panel=_LIMITS) for each in limits]
    options += [field_option(each, panel=LIVE_PANEL, switch=True) for each in live]
    return signed(query, "query", "Answer an SQL aggregate between people's devices.", options)


def query(given: Mapping[str, Any]) -> None:
    """Build the survey, draw it, run it, account for it and print the result."""
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
        file = parse(_text(given, epsilon, delta), Path(_NAME), _Options(_NAME))
        survey = surveys.build(file, say, people=given["devices"])
        check_inputs(survey.inputs, report=page, draw=given["draw"])
        if given["draw"] is not None and (drawn := drawing_of(survey.protocol)) is not None:
            given["draw"].write_text(drawn.svg, encoding="utf-8")
            note(f"the plan is drawn in {given['draw']}")
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
    if given[name] is None:
        raise MissingOption(name, "a query needs a budget")
    return float(checked(getattr(checks, name), given[name], name))


def _travel() -> dict[str, Field]:
    """Settings of the scramblers."""
    fields = fields_of(settings_type(load(_KIND)))
    return {name: each for name, each in fields.items() if name not in _COUNTED}


def _limits() -> dict[str, Field]:
    kind = load(_KIND)
    return dict(fields_of(kind.limits_type)) if issubclass(kind, Tunable) else {}


def _limit(name: str) -> str:
    return f"max_{name}"


def _text(given: Mapping[str, Any], epsilon: float, delta: float) -> str:
    """Return the survey file that says the same as the options."""
    chosen = {name: given[name] for name in _travel() if given[name] is not None}
    limits = {name: given[_limit(name)] for name in _limits()}
    files = {name: str(given[name]) for name in ("data", "schema")}
    tables: dict[str, dict[str, Any]] = {
        "task": {"kind": "query", "sql": given["sql"], **files},
        "budget": {"epsilon": epsilon, "delta": delta, "view": given["view"]},
        "protocol": {"kind": _KIND, "targets": _TARGETS} | chosen,
        "limits": {name: value for name, value in limits.items() if value is not None},
    }
    return "\n\n".join(
        "\n".join([f"[{name}]", *(f"{key} = {_value(each)}" for key, each in table.items())])
        for name, table in tables.items()
        if table
    )


def _value(value: Any) -> str:
    """Write a value as TOML, whose strings are those of JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _command(given: Mapping[str, Any], seed: int | None, live: Mapping[str, Any] | None) -> str:
    """Return the command that does the same again."""
    words = ["incrowd", "query", given["sql"]]
    named = ("data", "schema", "epsilon", "delta", "view", "devices", *_travel())
    settings = {name: given[name] for name in (*named, *map(_limit, _limits()))}
    for name, value in settings.items():
        if value is not None:
            words += [flag(name), str(value)]
    return shlex.join(words + (["--seed", str(seed)] if live is None else live_words(live)))
