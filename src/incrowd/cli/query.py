"""``incrowd query``: an SQL aggregate of people's tuples, hidden from observers of the network.

The options are turned into the text of a survey file, which is run like any other. Settings of the
scramblers that are left out are chosen for the budget, within the limits.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from incrowd import checks
from incrowd import survey as surveys
from incrowd.cli import options, run
from incrowd.cli.outcome import check_inputs, document_of, page_of, publish
from incrowd.cli.output import Format, FormatOption, note, progress
from incrowd.protocols import load
from incrowd.protocols.capabilities import Tunable, drawing_of
from incrowd.protocols.settings import Field, fields_of, settings_type
from incrowd.report import require_writable
from incrowd.survey.parse import VERSION, Origin, parse

_NAME = "query"
"""Name of the survey that is made from the options."""
_KIND = "scrambled-query"
_TARGETS = 8
_TEXTS = {
    "targets": f"Compute nodes that share the cells of each grouping set. Default: {_TARGETS}.",
    "redirect_probability": "Chance that a message goes to a random compute node, without tuple. "
    "Default: chosen.",
    "sources": "People whose messages one scrambler mixes. Default: chosen.",
    "dummies": "Messages without a tuple that a scrambler adds. Default: chosen.",
}
"""Help of options whose default is another one here."""
_RENAMED = {"file": "data"}
"""Options by the keys of a survey that are called otherwise."""
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

    def own(kind: Any, name: str, text: str, *default: Any) -> Parameter:
        told = typer.Option(options.flag(name), help=text)
        return options.keyword(name, Annotated[kind, told], *default)

    view = "View of the guarantee: network, or curator+network with --release-epsilon."
    travel, limits = _travel().values(), _limits().values()
    parameters = [
        options.keyword("sql", Annotated[str, typer.Argument(help=_SQL)]),
        own(Path, "data", "A CSV file, one person per row."),
        own(Path, "schema", "A TOML file with the columns and their domains."),
        options.EPSILON,
        options.DELTA,
        own(str, "view", view, "network"),
        own(bool, "explain", "Draw the plan first, and say what an observer can learn.", False),
        options.option("draw", Path, "Write a drawing of the plan to an SVG file."),
        run.ENGINE,
        options.number("n", "Ask only the people of the first n rows.", int),
        run.SEED,
        options.option("report", Path, "Write a report to this HTML file."),
        options.keyword("format", FormatOption, Format.table),
        *(options.field_option(each, text=_TEXTS.get(each.name), panel=_HOW) for each in travel),
        *(options.field_option(each, panel=_LIMITS) for each in limits),
        *run.live_options(),
    ]
    text = "Answer an SQL aggregate between people's devices."
    return options.signed(query, "query", text, parameters)


def query(given: Mapping[str, Any]) -> None:
    """Build the survey, draw it, run it, account for it and print the result."""
    epsilon, delta = (_needed(given, name) for name in ("epsilon", "delta"))
    live = run.live_asked(given)
    run.check_counts(given)
    page = None if given["report"] is None else page_of(given["data"], given["report"], False)
    if given["draw"] is not None:
        require_writable(given["draw"], "drawing")
    with progress() as say, options.named_by_flag(_travel()):
        file = parse(_text(given, epsilon, delta), Path(_NAME), _Options(_NAME))
        survey = surveys.build(file, say, people=given["n"])
        check_inputs(survey.inputs, report=page, draw=given["draw"])
        if given["draw"] is not None and (drawn := drawing_of(survey.protocol)) is not None:
            given["draw"].write_text(drawn.svg, encoding="utf-8")
            note(f"the plan is drawn in {given['draw']}")
        result = run.ask(survey, given, live, say)
    command = _command(given, result.seed, live)
    how = run.engine_of(given)
    document = document_of(survey, result, how, command, explain=given["explain"])
    publish(survey, document, page, given["format"])


class _Options(Origin):
    """Source of a survey's settings: the options, which its errors name."""

    def key(self, table: str, key: str) -> str:
        del table
        return options.flag(_RENAMED.get(key, key))

    def locate(self, error: options.Error, table: str | None = None) -> options.Error:
        names = {
            "data": ("file", "schema"),
            "budget": ("epsilon", "delta", "view"),
            "protocol": tuple(_travel()),
            "limits": tuple(_limits()),
        }
        return options.name_by_flag(error, names.get(table or "", ()), _RENAMED)


def _needed(given: Mapping[str, Any], name: str) -> float:
    if given[name] is None:
        raise options.MissingOption(name, "a query needs a budget")
    return float(options.checked(getattr(checks, name), given[name], name))


def _travel() -> dict[str, Field]:
    fields = fields_of(settings_type(load(_KIND)))
    return {name: each for name, each in fields.items() if name not in _COUNTED}


def _limits() -> dict[str, Field]:
    kind = load(_KIND)
    return dict(fields_of(kind.limits_type)) if issubclass(kind, Tunable) else {}


def _text(given: Mapping[str, Any], epsilon: float, delta: float) -> str:
    """Return the survey file that says the same as the options."""
    chosen = {name: given[name] for name in _travel() if given[name] is not None}
    limits = {name: given[name] for name in _limits()}
    tables: dict[str, dict[str, Any]] = {
        "[data]": {"file": str(given["data"]), "schema": str(given["schema"])},
        "[[question]]": {"kind": "query", "sql": given["sql"]},
        "[budget]": {"epsilon": epsilon, "delta": delta, "view": given["view"]},
        "[protocol]": {"kind": _KIND, "targets": _TARGETS} | chosen,
        "[limits]": {name: value for name, value in limits.items() if value is not None},
    }
    written = [
        "\n".join([name, *(f"{key} = {_value(each)}" for key, each in table.items())])
        for name, table in tables.items()
        if table
    ]
    return "\n\n".join([f"version = {VERSION}", *written])


def _value(value: Any) -> str:
    """Write a value as TOML, whose strings are those of JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _command(given: Mapping[str, Any], seed: int | None, live: Mapping[str, Any] | None) -> str:
    """Return the command that does the same again."""
    named = ("data", "schema", "epsilon", "delta", "view", "n", "engine", *_travel())
    how = {name: given[name] for name in (*named, *_limits())}
    how |= {"seed": seed, **(live or {})}
    return shlex.join(["incrowd", "query", given["sql"], *options.words_of(how)])
