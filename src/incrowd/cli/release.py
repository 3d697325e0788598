"""``incrowd release``: release a table of reports near the places they came from.

The trusted shuffler's part of an order-private release, for a table at hand: the columns of answers
move together from row to row, everything else stays where it is. Answers are taken to be randomized
already, and are released as they are, unless an ε0 says to do it now.

The order of the rows could itself tell of the answers, as in a file that is sorted by them. So rows
are put in the order of what is public in them, and in random order where that is equal, before
anything is drawn. Only where rows are numbered, by a file of groups or a graph, do they stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from incrowd.blocks import Fact, values_of
from incrowd.cli import options
from incrowd.cli.outcome import check_inputs, check_table, warn_alone, write_table
from incrowd.cli.output import Format, FormatOption, emit, note, progress
from incrowd.cli.run import SEED
from incrowd.data import read
from incrowd.errors import InvalidParameter, MissingColumn, located
from incrowd.protocols import load
from incrowd.protocols.registry import build
from incrowd.protocols.run import guarantees_against
from incrowd.protocols.settings import Field, fields_of, settings_type
from incrowd.randomizers import KRR, Randomizer, Unstated
from incrowd.randomness import Seeds, system_generator
from incrowd.report.format import count
from incrowd.report.json import describe_guarantee, describe_parameters, describe_versions
from incrowd.report.terminal import facts_table, print_guarantees
from incrowd.report.words import lines, order_meaning
from incrowd.tasks import Histogram
from incrowd.tasks.raw import NO_ANSWER, floats
from incrowd.tasks.release import Release, names_group

if TYPE_CHECKING:
    from rich.console import Console

_KIND = "order-shuffle"
_COUNTED = ("n", "metric", "exact")
"""Settings that follow from the data and other options; a real release is always drawn exactly."""
_HOW = "How it is shuffled"
_WHERE = "Where people are (one of these ways)"
_TEXTS = {"radius": "Reach of a person's group: kilometres with --lat and --lon."}

Cells: TypeAlias = np.ndarray[Any, Any]
"""Texts of some columns, a row per person."""


def release_command() -> Callable[..., None]:
    """Return the command, with an option for everything about the shuffle."""
    option = options.option
    data = Annotated[Path, typer.Argument(help="A CSV file, one person per row.")]
    coordinate = "A column of numbers, such as an age; several say a point together."
    group = "The column with the groups that each person belongs to, separated by semicolons."
    column = "A column of answers; several move together. Default: the only one that is no place."
    local_epsilon = "Randomize the answers first, by k-ary randomized response with this ε0."
    categories = "With --local-epsilon: the possible answers, separated by commas."
    output = "Where to write the table; otherwise the data's name with .shuffled.csv, here."
    parameters = [
        options.keyword("data", data),
        option("lat", str, "The column of latitudes, in degrees.", _WHERE),
        option("lon", str, "The column of longitudes, in degrees.", _WHERE),
        option("coordinate", list[str], coordinate, _WHERE),
        option("group_column", str, group, _WHERE),
        option("column", list[str], column),
        options.number("local_epsilon", local_epsilon, float),
        option("categories", str, categories),
        option("output", Path, output),
        SEED,
        options.keyword("format", FormatOption, Format.table),
        *(
            options.field_option(x, text=_TEXTS.get(x.name), panel=_HOW)
            for x in _settings().values()
        ),
    ]
    text = "Release a table of answers near the places they came from."
    return options.signed(release, "release", text, parameters)


def release(given: Mapping[str, Any]) -> None:
    """Read, group, shuffle, write, state the guarantees."""
    path, out, seed = given["data"], _out(given), given["seed"]
    replaced = out.exists()
    # A table that is really released must not be repeatable; a seed is for trying it out.
    with options.named_by_flag(("seed",)):
        rng = system_generator() if seed is None else Seeds(seed).generator("shuffler", 0)
    with progress() as say:
        say(f"reading {path.name}")
        table = read(path)
        header, rows = table.names, table.columns(table.names)
        public = _public(given)
        answers = _answers(given, header, public)
        table.require((*public, *answers))
        places = [header.index(name) for name in public]
        moving = [header.index(name) for name in answers]
        staying = [each for each in range(len(header)) if each not in moving]
        # Everything is checked while rows still are where the file has them.
        randomizer, codes = _randomizer(given, answers, _column(rows, moving))
        protocol = _protocol(given, len(rows), randomizer)
        _check_places(given, protocol, public, _column(rows, places))
        if public:
            # By what stays of the rows, and at random where that is equal.
            mixed: list[int] = rng.permutation(len(rows)).tolist()
            order = sorted(mixed, key=lambda row: [rows[row][each] for each in staying])
            rows = [rows[each] for each in order]
            codes = None if codes is None else codes[order]
            protocol = protocol.renumbered(order)
        say("grouping places")
        kept = _column(rows, places)
        protocol = _placed(given, protocol, kept)
        say("finding a reference order")
        mechanism = protocol.mechanism
        if codes is not None:
            names = (*_categories(given), NO_ANSWER)
            for row, code in zip(rows, randomizer.randomize_exactly(codes, rng), strict=True):
                row[moving[0]] = names[int(code)]
        say("shuffling")
        sources = mechanism.sources(rng)
        moved = [[row[each] for each in moving] for row in rows]
        for row, source in zip(rows, sources.tolist(), strict=True):
            for column, value in zip(moving, moved[source], strict=True):
                row[column] = value
        say("measuring")
        points = kept.astype(float) if given["group_column"] is None and public else None
        facts = protocol.shuffled(points)
        payload = _payload(given, protocol, values_of(facts), answers)
        payload["stayed"] = [header[each] for each in staying]
        write_table(out, header, rows)
    payload["file"] = str(out)
    if replaced:
        note(f"{out} was there and is replaced; if it was ever shown, the costs of both add up")
    if mechanism.sensitivity:
        warn_alone(payload["diagnostics"], len(rows))
    else:
        note("everybody is alone in their groups: the table was released unchanged")
    if seed is not None:
        note("anyone who knows the seed can undo this shuffle: use a seed only to try things out")
    emit(payload, lambda console: _render(console, payload, facts), given["format"])


def _out(given: Mapping[str, Any]) -> Path:
    """The file of the table: never one that is read."""
    path = given["data"]
    out: Path = given["output"] or Path(f"{path.name.split('.')[0]}.shuffled.csv")
    if str(out) == "-":
        raise typer.BadParameter("must name a file", param_hint="'--output'")
    named = [given[name] for name, field in _settings().items() if field.path and given[name]]
    check_inputs([path, *map(Path, named)], output=out)
    check_table(out)
    return out


def _column(rows: Sequence[Sequence[str]], positions: Sequence[int]) -> Cells:
    found = np.array([[row[each] for each in positions] for row in rows], dtype=np.str_)
    return found.reshape(len(rows), len(positions))


def _settings() -> dict[str, Field]:
    fields = fields_of(settings_type(load(_KIND)))
    return {name: each for name, each in fields.items() if name not in _COUNTED}


def _public(given: Mapping[str, Any]) -> tuple[str, ...]:
    lat, lon, coordinates = given["lat"], given["lon"], tuple(given["coordinate"] or ())
    if (lat is None) != (lon is None):
        raise options.UsageProblem("--lat and --lon go together: name both columns")
    ways = (lat, coordinates or None, given["group_column"], given["groups"], given["graph"])
    if sum(each is not None for each in ways) != 1:
        raise options.UsageProblem(
            "say where people are in one way: --lat and --lon, --coordinate, --group-column, "
            "--groups or --graph"
        )
    if given["group_column"] is not None:
        for name in ("radius", "shape"):
            if given[name] is not None:
                raise typer.BadParameter(
                    "is not for groups by label", param_hint=f"'{options.flag(name)}'"
                )
        return (given["group_column"],)
    if lat is None and not coordinates:
        return ()
    if given["radius"] is None:
        raise options.UsageProblem("missing option --radius: how far a person's group reaches")
    return (lat, lon) if lat is not None else coordinates


def _answers(given: Mapping[str, Any], header: Sequence[str], public: Sequence[str]) -> list[str]:
    """The columns that move; when not named, the only one that can."""
    named = list(given["column"] or ())
    for name in named:
        if name in public:
            raise options.UsageProblem(f"--column {name} says where people are, so it cannot move")
        if named.count(name) > 1:
            raise options.UsageProblem(f"--column {name} is named twice")
    others = [name for name in header if name not in public]
    if not named and len(others) != 1:
        raise MissingColumn(
            f"{given['data']}: say which columns hold the answers (--column): it has "
            f"{', '.join(others) or 'no other'}; what is not named stays where it is"
        )
    return named or others


def _categories(given: Mapping[str, Any]) -> tuple[str, ...]:
    found = tuple(each.strip() for each in str(given["categories"]).split(","))
    if "" in found:
        problem = "one of them is empty: remove a comma"
        raise typer.BadParameter(problem, param_hint="'--categories'")
    return found


def _randomizer(
    given: Mapping[str, Any], answers: Sequence[str], cells: Cells
) -> tuple[Randomizer, Any]:
    """The randomizer of answers, and their codes if it is to be applied."""
    if given["local_epsilon"] is None:
        if given["categories"] is not None:
            raise typer.BadParameter("needs --local-epsilon", param_hint="'--categories'")
        return Unstated(), None
    if given["categories"] is None or len(answers) != 1:
        raise options.UsageProblem(
            "--local-epsilon randomizes one column: name its possible answers "
            "(--categories a,b,c), which must not be read from the data"
        )
    asked = Histogram(categories=_categories(given))
    with options.named_by_flag(("epsilon",), {"epsilon": "local_epsilon"}):
        randomizer = KRR(categories=len(asked.labels), epsilon=given["local_epsilon"])
    return randomizer, asked.encode(cells[:, 0])


def _protocol(given: Mapping[str, Any], people: int, randomizer: Randomizer) -> Any:
    """The shuffle, before the places of people are known."""
    kind = load(_KIND)
    settings = {name: given[name] for name in _settings()}
    settings |= {"n": people, "metric": "euclidean" if given["lat"] is None else "haversine"}
    values = options.read_settings(kind, settings)
    with options.named_by_flag(_settings()):
        return build(kind, values, randomizer)


def _check_places(
    given: Mapping[str, Any], protocol: Any, names: tuple[str, ...], kept: Cells
) -> None:
    """Refuse text that is no place, by its row in the file."""
    if not names:
        return
    if given["group_column"] is not None:
        fitting = np.array([names_group(each) for each in kept[:, 0].tolist()])
    else:
        # The question does not matter here, only that people have coordinates.
        with located(str(given["data"])):
            asked = protocol.bound_to(Release(categories=("yes", "no"), coordinates=names))
        fitting = asked.place_format.inside(floats(kept))
    if not fitting.all():
        row = int(np.argmin(fitting))
        written = ", ".join(map(repr, kept[row].tolist()))
        raise InvalidParameter(
            f"{given['data']}: row {row + 1}: {', '.join(names)}: {written} is no place: correct "
            "the data"
        )


def _placed(given: Mapping[str, Any], protocol: Any, kept: Cells) -> Any:
    if not kept.shape[1]:
        return protocol
    with located(str(given["data"])):
        by_label = given["group_column"] is not None
        at = (None, kept[:, 0].tolist()) if by_label else (floats(kept), None)
        return protocol.at(protocol.grouping_at(*at))


def _payload(
    given: Mapping[str, Any], protocol: Any, own: Mapping[str, Any], answers: list[str]
) -> dict[str, Any]:
    # Only the view of the table is spoken of: the way of the reports to here is another matter.
    stated = guarantees_against(protocol, "curator")
    return {
        "people": protocol.n,
        "moved": answers,
        "guarantees": [describe_guarantee(each, 0.0) for each in stated],
        "parameters": describe_parameters(protocol),
        "diagnostics": own,
        "seed": given["seed"],
        "versions": describe_versions(),
    }


def _render(console: Console, payload: Mapping[str, Any], own: tuple[Fact, ...]) -> None:
    stated = payload["parameters"]["randomizer"]["kind"] != "unstated"
    shown = [each for each in payload["guarantees"] if stated or each["notion"] == "order"]
    print_guarantees(console, shown)
    order = next((each for each in shown if each["notion"] == "order"), None)
    facts = [
        ("people", count(payload["people"])),
        ("moved", ", ".join(payload["moved"])),
        ("stayed", ", ".join(payload["stayed"])),
        ("meaning", order_meaning(order, "recipients of the table", values_of(own))),
        *lines(own),
    ]
    if not stated:
        facts.append(("answers", "released as they are: their own ε0 is not known"))
    if payload["seed"] is not None:
        facts.append(("seed", str(payload["seed"])))
    console.print(facts_table([*facts, ("release", payload["file"])]))
