"""Options of ``account`` and ``calibrate``, derived from what they set.

A protocol's options are the fields of its parameters, a randomizer's those of its own description:
nothing here knows any protocol. Fields called ``epsilon`` and ``delta`` are the randomizer's, and
appear as ``--local-epsilon`` and ``--local-delta`` beside the guarantee's ``--epsilon`` and
``--delta``. Numbers may be written as ``1e6``; where a field may be left open by a word, its option
takes that word too.
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

from incrowd.data import read_numbers
from incrowd.errors import FileUnreadable, IncrowdError, InvalidParameter
from incrowd.plugins import target
from incrowd.protocols.api import Colluders, Protocol
from incrowd.protocols.capabilities import NoiseStated, asks_randomizer
from incrowd.protocols.registry import build, plugin_of
from incrowd.protocols.settings import Field, fields_of, settings_type
from incrowd.randomizers import Channel, read_matrix
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.registry import RANDOMIZERS, answer_plugins

Error = TypeVar("Error", bound=IncrowdError)

_RENAMED = {"epsilon": "local_epsilon", "delta": "local_delta"}
_HELP = {
    "local_epsilon": "The ε0 of the randomizer.",
    "categories": "Number of categories of the randomizer.",
    "dimension": "Number of coordinates of a vector.",
    "local_delta": "The δ0 of the randomizer.",
    "branching": "Number of children of a node of the hierarchical randomizer.",
    "matrix": "A file with a channel of one's own: a row of probabilities per input, as CSV "
    "without a header or as JSON. Its ε0 follows from it.",
}
_RANDOMIZER = (
    "Randomizer of each answer; generic covers every pure one. Default: follows from the "
    "other options, or else generic."
)
_RANDOMIZER_PANEL = "Randomizer"
_MOST_DIGITS = 40
"""Enough for every count and every seed of 128 bits."""

ColludersOption = Annotated[
    str,
    typer.Option(
        help="People who tell the view what they saw: a number, a share of all (below 1), or a "
        "JSON file with a list of their numbers, counted from 0.",
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


def _number_or_word(field: Field, text: Any) -> Any:
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
        wanted = "a list of whole numbers, such as [0, 17, 4]"
        raise InvalidParameter(f"{path}: the colluders must be {wanted}")
    return found


def flag(name: str) -> str:
    """The option that sets a field."""
    return "--" + name.replace("_", "-")


def option(
    name: str, kind: Any, text: str, panel: str | None = None, flags: str | None = None, **more: Any
) -> inspect.Parameter:
    """An option of one value; none when it is not given."""
    flags = flags or flag(name)
    told = typer.Option(flags, help=text, rich_help_panel=panel, show_default=False, **more)
    return keyword(name, Annotated[kind | None, told], None)


def number(name: str, text: str, kind: type, panel: str | None = None) -> inspect.Parameter:
    """An option of one number; none when it is not given."""
    parser, metavar = (whole, "INTEGER") if kind is int else (real, "NUMBER")
    return option(name, kind, text, panel, parser=parser, metavar=metavar)


def keyword(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    """One entry of a signature that is given as data."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


EPSILON = number("epsilon", "The ε to be guaranteed.", float)
DELTA = number("delta", "The failure probability δ of the guarantee.", float)


def protocol_options(kind: type[Protocol]) -> list[inspect.Parameter]:
    """One option per field of the protocol's parameters."""
    return [field_option(field) for field in fields_of(settings_type(kind)).values()]


def randomizer_options() -> list[inspect.Parameter]:
    """``--randomizer`` and one option per field that any randomizer has."""
    kinds = Enum("RandomizerKind", {kind: kind for kind in answer_plugins()}, type=str)  # type: ignore[misc]
    options = {"randomizer": option("randomizer", kinds, _RANDOMIZER, _RANDOMIZER_PANEL)}
    for kind in answer_plugins():
        for field in fields_of(RANDOMIZERS.load(kind)).values():
            name = _RENAMED.get(field.name, field.name)
            options.setdefault(name, field_option(field, name, _HELP.get(name), _RANDOMIZER_PANEL))
    return list(options.values())


def read_settings(kind: type[Protocol], given: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol's settings from the options; those left out keep their defaults."""
    fields = fields_of(settings_type(kind))
    chosen = {name: each for name, each in fields.items() if given.get(name) is not None}
    values = {name: _read(field, given[name]) for name, field in chosen.items()}
    for name, field in fields.items():
        if field.required and name not in values:
            raise MissingOption(name, field.description)
    return values


def _read(field: Field, value: Any) -> Any:
    if field.type is tuple and field.length is None:
        return read_numbers(value)
    return str(value) if field.path else value


def build_protocol(kind: type[Protocol], given: Mapping[str, Any]) -> Protocol:
    """The protocol that the options describe."""
    described, plugin = settings_type(kind), plugin_of(kind)
    settings = _convert(read_settings(kind, given), described)
    stated = named_kind(given) is None and not asks_randomizer(kind, given)
    implied: str | Randomizer = "generic"
    if issubclass(kind, NoiseStated):
        implied = plugin.default_randomizers.get("category", (implied,))[0]
    elif plugin.accounting_randomizer is not None and given["local_epsilon"] is None:
        implied = target(plugin.accounting_randomizer)()
    randomizer = None if stated else build_randomizer(given, implied)
    fields = fields_of(described)
    try:
        with named_by_flag(fields):
            protocol = build(kind, settings, randomizer)
    except InvalidParameter as error:
        # A default that is refused is none: what it stands for can only be given.
        field = fields.get(error.field or "")
        if field is not None and field.load is None and given.get(field.name) is None:
            raise MissingOption(field.name, field.description) from error
        raise
    if stated:
        build_randomizer(given, protocol.randomizer)  # refuses what the stated noise does not have
    return protocol


def named_kind(given: Mapping[str, Any]) -> str | None:
    """The randomizer that the options name, or that a matrix is of; none where neither is given."""
    if given["randomizer"] is not None:
        return str(given["randomizer"].value)
    return Channel.__struct_config__.tag if given.get("matrix") is not None else None  # type: ignore[return-value]


def derives_epsilon(given: Mapping[str, Any]) -> bool:
    """Whether the ε0 of the named randomizer follows from its other options."""
    kind = named_kind(given)
    return kind is not None and not fields_of(RANDOMIZERS.load(kind))["epsilon"].required


def build_randomizer(given: Mapping[str, Any], implied: str | Randomizer) -> Randomizer:
    """The randomizer that the options describe; an option it does not have is refused.

    ``implied`` is the one to take where none is named, or its kind.
    """
    kind = named_kind(given) or implied
    made = kind if isinstance(kind, Randomizer) else None
    named = kind.kind if isinstance(kind, Randomizer) else kind
    fields = fields_of(RANDOMIZERS.load(named)) if made is None else {}
    values: dict[str, Any] = {}
    for parameter in randomizer_options()[1:]:
        name = {short: long for long, short in _RENAMED.items()}.get(parameter.name, parameter.name)
        value = given.get(parameter.name)
        if value is not None and name not in fields:
            problem = f"the {named} randomizer has no such parameter"
            problem += "" if made is None else " beside those that are given"
            raise typer.BadParameter(problem, param_hint=f"'{flag(parameter.name)}'")
        if value is not None:
            values[name] = read_matrix(value) if fields[name].listed else value
        elif name in fields and fields[name].required:
            raise MissingOption(parameter.name, f"the {named} randomizer needs it")
    with named_by_flag(values, _RENAMED):
        return _convert(values, RANDOMIZERS.load(named)) if made is None else made


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
    """Name the option of the error's field, perhaps ``renamed``, where that is in ``names``."""
    if error.field is None or error.field not in names:
        return error
    return error.called(flag(renamed.get(error.field, error.field)))


def checked(check: Callable[[Any, str], Any], value: Any, name: str) -> Any:
    """Value of an option, after a check of :mod:`incrowd.checks`; none where it is not given."""
    with named_by_flag((name,)):
        return None if value is None else check(value, name)


def words_of(given: Mapping[str, Any]) -> list[str]:
    """Words of a command line that give these options; what is none is left out."""
    words: list[str] = []
    for name, value in given.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        elif value is not None:
            words += [flag(name), str(value)]
    return words


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

    ``switch``: ``--no-`` sets a truth value to false, as it always does where true is the default.
    """
    name = name or field.name
    text = text or sentence(field.description)
    stated = "Default:" in text or field.required or field.type is bool
    if field.shown_default and not stated:
        text += f" Default: {field.shown_default}."
    if field.words:
        metavar = "|".join(("INTEGER" if field.type is int else "NUMBER", *field.words))
        parser = partial(_number_or_word, field)
        return option(name, str, text, panel, parser=parser, metavar=metavar)
    if field.type is bool and (switch or field.default):
        return option(name, bool, text, panel, f"{flag(name)}/{flag(f'no_{name}')}")
    if field.type in (int, float):
        return number(name, text, field.type, panel)
    if field.length is not None:
        return option(name, tuple[(int,) * field.length], text, panel)  # type: ignore[misc]
    return option(name, Path if field.path or field.type is tuple else field.type, text, panel)


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
