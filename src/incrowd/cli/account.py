"""``incrowd account`` and ``calibrate``: the guarantee of a protocol, and what meets a guarantee.

Both have one command per registered protocol, with the same options. ``account`` states the
guarantee of a fully described run. ``calibrate`` takes ``--epsilon`` and the same options with
exactly one left out, and solves for that one: the left-out option is the one without a default that
is missing, or, when none is, the one with a default that the protocol does not replace by what it
finds itself.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from incrowd import checks
from incrowd.blocks import Fact, values_of
from incrowd.cli import options
from incrowd.cli.lazy import Deferred, LazyGroup
from incrowd.cli.output import Format, FormatOption, emit, progress
from incrowd.errors import InvalidParameter
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import OrderPrivate, asks_randomizer, planned
from incrowd.protocols.registry import PROTOCOLS, load, plugin_of
from incrowd.protocols.run import guarantees_against
from incrowd.protocols.settings import Safe, fields_of, settings_type
from incrowd.randomizers import Unstated
from incrowd.report.format import count, down, small, up
from incrowd.report.json import describe_guarantee, describe_parameters
from incrowd.report.terminal import facts_table, print_guarantees
from incrowd.report.words import guess_meaning, lines, order_meaning, settings, view_title
from incrowd.survey import Goal, calibrate, calibrate_delta, unknowns
from incrowd.survey.calibrate import LEAST_DELTA, LOCAL_EPSILON
from incrowd.survey.pipeline import Progress
from incrowd.views import view_of

if TYPE_CHECKING:
    from rich.console import Console

Action = Callable[[type[Protocol], Mapping[str, Any]], None]

_ViewOption = Annotated[
    str,
    typer.Option(help="View: parties joined by '+', such as curator+shuffler, or everyone."),
]


_SOLVE = "Option to solve for, such as rounds. Default: the one that is left out."


def account_app() -> TyperGroup:
    """The commands that state a guarantee."""
    return _app("State the guarantee of a protocol.", account, ())


def calibrate_app() -> TyperGroup:
    """The commands that solve for what was left out."""
    text = "Solve for one option, so that a guarantee is met."
    return _app(text, solve, (options.EPSILON, options.option("solve", str, _SOLVE)))


def account(kind: type[Protocol], given: Mapping[str, Any]) -> None:
    """Print the guarantee of a fully described run."""
    usual = plugin_of(kind).default_delta
    if given["delta"] is None and usual is not None:
        delta = usual
    else:
        delta = options.checked(checks.delta, _given(given, "delta"), "delta")
    given = _checked(given)
    protocol = options.build_protocol(kind, given)
    with progress() as say:
        protocol = _planned(protocol, delta, given, say, "computing the guarantee")
        payload, own = _stated(protocol, delta, given)
    emit(payload, lambda console: _render(console, protocol, payload, own), given["format"])


def solve(kind: type[Protocol], given: Mapping[str, Any]) -> None:
    """Print the left-out option that meets the guarantee, and the guarantee it gives."""
    epsilon = options.checked(checks.epsilon, _given(given, "epsilon"), "epsilon")
    usual = plugin_of(kind).default_delta
    if given["delta"] is not None:
        options.checked(checks.delta, given["delta"], "delta")
    elif usual is not None and given[LOCAL_EPSILON.name] is None:
        given = {**given, "delta": usual}  # a δ that goes without saying is not left out
    given = _checked(given)
    name = _left_out(kind, given)
    with progress() as say:
        say(f"solving for {name}")
        if name == "delta":
            value, shown, safe, protocol = _solve_delta(kind, given, epsilon)
            # The δ was computed for this ε; turning it back would only add rounding.
            stated, own = _stated(protocol, value, given, epsilon)
        else:
            value, shown, safe, protocol = _solve_parameter(kind, given, name, epsilon, say)
            stated, own = _stated(protocol, given["delta"], given)
    budget = {"epsilon": epsilon, "delta": given["delta"], "view": given["view"]}
    payload = {"budget": budget, "solved": {"name": name, "value": value}} | stated
    best = "the least" if safe == "min" else "the most"
    told = f"{best} that guarantees ε ≤ {small(epsilon)}"
    if name == "delta" and value == 0:
        told = f"ε ≤ {small(epsilon)} already holds with delta = 0"

    def render(console: Console) -> None:
        console.print(f"[bold]{name} {shown}[/]  {told}")
        console.print()
        _render(console, protocol, payload, own)

    emit(payload, render, given["format"])


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read colluders, and refuse a view that does not exist before anything is computed."""
    options.checked(lambda value, _: view_of(value), given["view"], "view")
    return {**given, "colluders": options.read_colluders(given["colluders"])}


Solved = tuple[float, str, Safe, Protocol]
"""A value, what is said of it in few digits, its safe side, and the protocol that has it."""


def _solve_delta(kind: type[Protocol], given: Mapping[str, Any], epsilon: float) -> Solved:
    protocol = options.build_protocol(kind, given)
    try:
        guarantee = protocol.guarantee(given["view"], given["colluders"])
    except InvalidParameter:
        for name, field in fields_of(settings_type(kind)).items():
            if field.words and (word := getattr(protocol, name)) in field.words:
                why = f"{word} is chosen for a delta, which is left out"
                raise options.MissingOption(name, why) from None
        raise
    delta = calibrate_delta(guarantee, epsilon)
    # What is below the least δ that can be stated is only known to be at most that.
    sign = "≤" if delta == LEAST_DELTA else "="
    return delta, f"{sign} {up(delta)}", "min", protocol


def _solve_parameter(
    kind: type[Protocol], given: Mapping[str, Any], name: str, epsilon: float, say: Progress
) -> Solved:
    def build(value: float) -> Protocol:
        stage = f"trying {name} = {value:.6g}"
        protocol = options.build_protocol(kind, {**given, name: value})
        return _planned(protocol, given["delta"], given, say, stage)

    unknown = unknowns(kind)[name]
    goal = Goal(epsilon, given["delta"], given["view"], given["colluders"])
    value, protocol = calibrate(build, unknown, goal)
    if unknown.whole:
        return value, f"= {count(value)}", unknown.safe, protocol
    side = down if unknown.safe == "max" else up
    return value, f"= {side(value, 6)}", unknown.safe, protocol


def _planned(
    protocol: Protocol, delta: float, given: Mapping[str, Any], say: Progress, stage: str
) -> Protocol:
    """The protocol with everything chosen that its parameters leave open."""
    say(stage)
    return planned(protocol, delta, colluders=given["colluders"], progress=partial(say, stage))


def _app(text: str, action: Action, more: tuple[inspect.Parameter, ...]) -> TyperGroup:
    app = typer.Typer(help=text, no_args_is_help=True, cls=LazyGroup)
    group = typer.main.get_group(app)
    for kind, plugin in PROTOCOLS.plugins().items():
        made = partial(_command, kind, action, more)
        group.add_command(Deferred(kind, options.sentence(plugin.summary), made))
    return group


def _command(kind: str, action: Action, more: tuple[inspect.Parameter, ...]) -> Callable[..., None]:
    protocol, plugin = load(kind), PROTOCOLS.find(kind)
    parameters = [
        *options.protocol_options(protocol),
        *more,
        options.DELTA,
        options.keyword("view", _ViewOption, plugin.default_view),
        options.keyword("colluders", options.ColludersOption, "0"),
        *options.randomizer_options(),
        options.keyword("format", FormatOption, Format.table),
    ]
    text = options.sentence(plugin.summary)
    return options.signed(partial(action, protocol), kind, text, parameters)


def _given(given: Mapping[str, Any], name: str) -> float:
    if given[name] is None:
        raise options.MissingOption(name)
    return float(given[name])


def _left_out(kind: type[Protocol], given: Mapping[str, Any]) -> str:
    fields = fields_of(settings_type(kind))
    solvable = ["delta", *unknowns(kind)]
    unasked = options.named_kind(given) is None and not asks_randomizer(kind, given)
    if unasked or options.derives_epsilon(given):
        solvable.remove(LOCAL_EPSILON.name)
    absent = [name for name in solvable if given[name] is None]
    needed = [name for name in absent if name not in fields or fields[name].required]
    if given["solve"] is not None:
        return _named(given, solvable, needed)
    candidates = needed or _open(kind, given, absent)
    if len(candidates) == 1:
        return candidates[0]
    missing, either = (", ".join(map(options.flag, each)) for each in (candidates, solvable))
    problem = f"left out {missing}" if candidates else "nothing is left out"
    raise options.UsageProblem(
        f"{problem}; leave out exactly one of {either}, the one to solve for"
    )


def _named(given: Mapping[str, Any], solvable: list[str], needed: list[str]) -> str:
    """Option that ``--solve`` names, which must be the only one without a value."""
    name: str = given["solve"].removeprefix("--").replace("-", "_")
    if name not in solvable:
        known = ", ".join(each.replace("_", "-") for each in solvable)
        problem = f"{given['solve']!r} cannot be solved for: name one of {known}"
        raise typer.BadParameter(problem, param_hint="'--solve'")
    if given[name] is not None:
        raise typer.BadParameter("is to be solved for", param_hint=f"'{options.flag(name)}'")
    for other in needed:
        if other != name:
            raise options.MissingOption(other, f"only {name.replace('_', '-')} is solved for")
    return name


def _open(kind: type[Protocol], given: Mapping[str, Any], names: list[str]) -> list[str]:
    """Of parameters with a default: those to solve for; what the protocol found is not left out."""
    fields = fields_of(settings_type(kind))
    try:
        made = options.build_protocol(kind, given)
    except options.MissingOption as error:
        if error.name not in names:
            raise
        return [error.name]  # a default that is refused is none
    return [
        name
        for name in names
        # An empty default is none: something else was given in its place.
        if getattr(made, name) == fields[name].default and fields[name].default_text != ""
    ]


def _stated(
    protocol: Protocol, delta: float, given: Mapping[str, Any], epsilon: float | None = None
) -> tuple[dict[str, Any], tuple[Fact, ...]]:
    """Guarantees, parameters and diagnostics as JSON, and the latter as facts."""
    found = guarantees_against(protocol, given["view"], given["colluders"])
    # Nothing more can be said at δ = 0, except where no guarantee needs any.
    sayable = delta or plugin_of(protocol).default_delta == delta
    own = protocol.diagnostics(delta, found[0], given["colluders"]) if sayable else ()
    stated = {
        "guarantees": [describe_guarantee(each, delta, epsilon) for each in found],
        "parameters": describe_parameters(protocol),
        "diagnostics": values_of(own),
    }
    return stated, own


def _render(
    console: Console, protocol: Protocol, payload: Mapping[str, Any], facts: tuple[Fact, ...]
) -> None:
    about, *others = payload["guarantees"]
    order = next(iter(others), None)
    print_guarantees(console, payload["guarantees"] if math.isfinite(about["epsilon"]) else others)
    who = view_title(about["view"].split("+"))
    parameters = dict(payload["parameters"])
    randomizer = dict(parameters.pop("randomizer"))
    rows = [("meaning", _meaning(about, randomizer["kind"], who))]
    if isinstance(protocol, OrderPrivate):
        rows.append(("order", order_meaning(order, who, payload["diagnostics"])))
    rows += [
        *lines(facts),
        ("neighbours", about["neighbours"]),
        *(("assuming", each) for each in about["assumptions"]),
        *(("order, assuming", each) for each in (order or {}).get("assumptions", ())),
        ("protocol", _listed(parameters, "protocol")),
        ("randomizer", _listed(randomizer, "kind")),
    ]
    console.print(facts_table(rows))


def _meaning(guarantee: Mapping[str, Any], randomizer: str, who: str) -> str:
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    if not math.isfinite(epsilon):
        lacking = "no ε is proven at this δ" if delta else "no ε is proven without a δ (--delta)"
        if randomizer == Unstated().kind:
            lacking = "their ε0 is not stated (--local-epsilon)"
        return f"nothing is proven about answers: {lacking}"
    return guess_meaning(who, epsilon, delta)


def _listed(values: dict[str, Any], kind: str) -> str:
    named = values.pop(kind)
    stated = settings(values)
    return f"{named}: {stated}" if stated else str(named)
