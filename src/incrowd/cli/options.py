"""Options of ``account`` and ``calibrate``, derived from what they set.

A protocol's options are the fields of its parameters, a randomizer's those of its own description:
nothing here knows any protocol. Fields called ``epsilon`` and ``delta`` are the randomizer's, and
appear as ``--eps0`` and ``--delta0`` beside the promise's ``--epsilon`` and ``--delta``. Numbers
may be written as ``1e6``; where a field may be left open by a word, its option takes that word too.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from incrowd.errors import FileUnreadable, IncrowdError, InvalidParameter
from incrowd.plugins import target
from incrowd.protocols.api import Colluders, Protocol
from incrowd.protocols.capabilities import NoiseStated, asks_randomizer
from incrowd.protocols.registry import build, plugin_of
from incrowd.protocols.settings import Field, fields_of, settings_type
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.registry import RANDOMIZERS, answer_plugins
from incrowd.survey.data import read_numbers

Error = TypeVar("Error", bound=IncrowdError)

_RENAMED = {"epsilon": "eps0", "delta": "delta0"}
_HELP = {
    "eps0": "The ε0 of the randomizer.",
    "categories": "How many categories the randomizer has.",
    "dimension": "How many coordinates a vector has.",
    "delta0": "The δ0 of the randomizer.",
}
_RANDOMIZER_PANEL = "Randomizer"
_MOST_DIGITS = 40
"""Enough for every count and every seed of 128 bits."""

ColludersOption = Annotated[
    str,
    typer.Option(
        help="People who tell the viewer what they saw: how many, which share of all (below 1), "
        "or a JSON file with a list of who they are, counted from 0.",
        metavar="INTEGER|SHARE|FILE",
    ),
]


class UsageProblem(typer.BadParameter):
    """Bad usage that is about no single value: what it says stands alone."""

    def format_message(self) -> str:
        """The message as it is."""
        return self.message


class MissingOption(UsageProblem):
    """An option that was left out."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(f"missing option {flag(name)}{f': {why}' if why else ''}")
        self.name = name


def whole(text: Any) -> int:
    """A whole number, perhaps written as 1e6."""
    try:
        value = Decimal(str(text))
        if value.is_finite() and value.adjusted() > _MOST_DIGITS:
            # Written out, a number such as 1e999999999 would fill the memory.
            raise typer.BadParameter(f"{text!r} is too large a whole number")
        if value == value.to_integral_value():
            return int(value)
    except (InvalidOperation, OverflowError, ValueError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number")


def real(text: Any) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def number_or_word(field: Field, text: Any) -> Any:
    """A number of the field's type, or one of the words that leave it open."""
    if text in field.words:
        return text
    try:
        return whole(text) if field.type is int else real(text)
    except typer.BadParameter:
        raise typer.BadParameter(f"{text!r} is not {field.expected}") from None


def read_colluders(text: str) -> Colluders:
    """How many people collude, which share of them, or who they are."""
    try:
        value = real(text)
    except typer.BadParameter:
        return _listed_in(Path(text))
    if 0 < value < 1:
        return value
    try:
        return whole(text)
    except typer.BadParameter:
        raise typer.BadParameter(
            f"{text!r} is neither a whole number of people nor a share between 0 and 1",
            param_hint=f"'{flag('colluders')}'",
        ) from None


def _listed_in(path: Path) -> list[int]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise FileUnreadable(
            f"{path}: cannot read the colluders: {error.strerror}; {flag('colluders')} takes a "
            "number of people, a share of them such as 0.01, or a JSON file"
        ) from error
    except ValueError as error:
        raise InvalidParameter(f"{path}: not valid JSON: {error}") from error
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise InvalidParameter(
            f"{path}: the colluders must be a list of whole numbers, such as [0, 17, 4]"
        )
    return found


def flag(name: str) -> str:
    """The option that sets a field."""
    return "--" + name.replace("_", "-")


def number_option(name: str, text: str, kind: type, panel: str | None = None) -> Any:
    """A typer option for one number; none when it is not given."""
    parser, metavar = (whole, "INTEGER") if kind is int else (real, "NUMBER")
    return Annotated[kind | None, _option(name, text, panel, parser=parser, metavar=metavar)]


def _option(name: str, text: str, panel: str | None, **more: Any) -> Any:
    return typer.Option(flag(name), help=text, rich_help_panel=panel, show_default=False, **more)


def protocol_options(kind: type[Protocol]) -> list[inspect.Parameter]:
    """One option per field of the protocol's parameters."""
    return [field_option(field) for field in fields_of(settings_type(kind)).values()]


def randomizer_options() -> list[inspect.Parameter]:
    """``--randomizer`` and one option per field that any randomizer has."""
    kinds = Enum("RandomizerKind", {kind: kind for kind in answer_plugins()}, type=str)  # type: ignore[misc]
    chosen = Annotated[
        kinds | None,
        typer.Option(
            "--randomizer",
            help="What each person does to their answer; generic covers every pure one. "
            "Default: what the other options say, or else generic.",
            rich_help_panel=_RANDOMIZER_PANEL,
            show_default=False,
        ),
    ]
    options = {"randomizer": keyword("randomizer", chosen, None)}
    for kind in answer_plugins():
        for field in fields_of(RANDOMIZERS.load(kind)).values():
            name = _RENAMED.get(field.name, field.name)
            options.setdefault(name, field_option(field, name, _HELP.get(name), _RANDOMIZER_PANEL))
    return list(options.values())


def read_settings(kind: type[Protocol], given: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol's settings from the options; those left out keep their defaults."""
    fields = fields_of(settings_type(kind))
    values = {
        name: _read(field, given[name])
        for name, field in fields.items()
        if given.get(name) is not None
    }
    for name, field in fields.items():
        if field.required and name not in values:
            raise MissingOption(name, field.description)
    return values


@contextmanager
def _missing(fields: Mapping[str, Field], given: Mapping[str, Any]) -> Iterator[None]:
    """A default that is refused is none: what it stands for can only be given."""
    try:
        with named_by_flag(fields):
            yield
    except InvalidParameter as error:
        field = fields.get(error.field or "")
        if field is not None and given.get(field.name) is None:
            raise MissingOption(field.name, field.description) from error
        raise


def _read(field: Field, value: Any) -> Any:
    if field.type is tuple and field.length is None:
        return read_numbers(value)
    return str(value) if field.path else value


def build_protocol(kind: type[Protocol], given: Mapping[str, Any]) -> Protocol:
    """The protocol that the options describe."""
    described, plugin = settings_type(kind), plugin_of(kind)
    settings = _convert(read_settings(kind, given), described)
    stated = given["randomizer"] is None and not asks_randomizer(kind, given)
    implied: str | Randomizer = "generic"
    if issubclass(kind, NoiseStated):
        implied = plugin.default_randomizers.get("category", implied)
    elif plugin.accounting_randomizer is not None and given["eps0"] is None:
        implied = target(plugin.accounting_randomizer)()
    randomizer = None if stated else build_randomizer(given, implied)
    with _missing(fields_of(described), given):
        protocol = build(kind, settings, randomizer)
    if stated:
        build_randomizer(given, protocol.randomizer)  # refuses what the stated noise does not have
    return protocol


def build_randomizer(given: Mapping[str, Any], implied: str | Randomizer) -> Randomizer:
    """The randomizer that the options describe; an option it does not have is refused.

    ``implied`` is the one to take where none is named, or its kind.
    """
    kind = str(given["randomizer"].value) if given["randomizer"] is not None else implied
    whole = isinstance(kind, Randomizer)
    named = kind.kind if isinstance(kind, Randomizer) else kind
    fields = {} if whole else fields_of(RANDOMIZERS.load(named))
    values: dict[str, Any] = {}
    for parameter in randomizer_options()[1:]:
        name = {short: long for long, short in _RENAMED.items()}.get(parameter.name, parameter.name)
        value = given.get(parameter.name)
        if name not in fields:
            if value is not None:
                raise typer.BadParameter(
                    f"the {named} randomizer has no such parameter"
                    + (" beside those that are given" if whole else ""),
                    param_hint=f"'{flag(parameter.name)}'",
                )
        elif value is not None:
            values[name] = value
        elif fields[name].required:
            raise MissingOption(parameter.name, f"the {named} randomizer needs it")
    if isinstance(kind, Randomizer):
        return kind
    with named_by_flag(values, _RENAMED):
        randomizer: Randomizer = _convert(values, RANDOMIZERS.load(kind))
    return randomizer


@contextmanager
def named_by_flag(
    names: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})
) -> Iterator[None]:
    """Let an error about a field name the option that set it."""
    try:
        yield
    except IncrowdError as error:
        name_by_flag(error, names, renamed)
        raise


def name_by_flag(
    error: Error, names: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})
) -> Error:
    """Name the option that set the error's field, where that is one of ``names``.

    Args:
        error: Error to name it in.
        names: Fields that have an option.
        renamed: Names of options that are not those of their fields.

    Returns:
        The same error.

    """
    if error.field is None or error.field not in names:
        return error
    return error.called(flag(renamed.get(error.field, error.field)))


def checked(check: Callable[[Any, str], Any], value: Any, name: str) -> Any:
    """Value of an option, after a check of :mod:`incrowd.checks`."""
    with named_by_flag((name,)):
        return check(value, name)


def signed(
    action: Callable[..., None], name: str, text: str, options: list[inspect.Parameter]
) -> Callable[..., None]:
    """A command whose options are given as data rather than written in a signature."""

    def command(**given: Any) -> None:
        action(given)

    command.__name__ = name
    command.__doc__ = text
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in options}
    return command


def field_option(
    field: Field,
    name: str | None = None,
    text: str | None = None,
    panel: str | None = None,
    *,
    switch: bool = False,
) -> inspect.Parameter:
    """The option that sets one field of a description; none when it is not given.

    ``switch``: a truth value can also be set to false, by ``--no-``, as one that is true unless it
    is told otherwise always can.
    """
    name = name or field.name
    described = text or sentence(field.description)
    told = "Default:" in described
    if not (told or field.required) and field.type is not bool and field.shown_default:
        described += f" Default: {field.shown_default}."
    if field.words:
        number = "INTEGER" if field.type is int else "NUMBER"
        parser, metavar = partial(number_or_word, field), "|".join((number, *field.words))
        option = _option(name, described, panel, parser=parser, metavar=metavar)
        return keyword(name, Annotated[str | None, option], None)
    if field.type is bool and (switch or field.default):
        both = typer.Option(
            f"{flag(name)}/{flag(f'no_{name}')}",
            help=described,
            rich_help_panel=panel,
            show_default=False,
        )
        return keyword(name, Annotated[bool | None, both], None)
    if field.type in (int, float):
        return keyword(name, number_option(name, described, field.type, panel), None)
    if field.length is not None:
        each: Any = tuple[(int,) * field.length]  # type: ignore[misc]
        return keyword(name, Annotated[each | None, _option(name, described, panel)], None)
    kind = Path if field.path or field.type is tuple else field.type
    return keyword(name, Annotated[kind | None, _option(name, described, panel)], None)


def keyword(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    """One entry of a signature that is given as data."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def _convert(values: dict[str, Any], description: type[Any]) -> Any:
    try:
        return msgspec.convert(values, description)
    except msgspec.ValidationError as error:
        # msgspec wraps what a description's own checks raise; their kind decides the exit code.
        if isinstance(error.__cause__, IncrowdError):
            raise error.__cause__ from None
        raise InvalidParameter(str(error).replace("`", "")) from error


def sentence(text: str) -> str:
    """The text with a capital and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
