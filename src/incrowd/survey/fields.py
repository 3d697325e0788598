"""What can be set in a description, read from the description itself.

Protocol parameters and randomizers are ``msgspec.Struct`` classes. Everything that lets a person
set them (tables of a survey file, options of the command line, the choice of what ``calibrate``
solves for) is derived here from their fields, so that adding a field is one line in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from incrowd.protocols.base import Safe

__all__ = ["Field", "fields_of"]

_SPOKEN = {
    int: "whole number",
    float: "number",
    bool: "truth value",
    str: "text",
    tuple: "list of numbers",
}


@dataclass(frozen=True)
class Field:
    """One field of a description: its plain type, its help text, and how it may be solved for."""

    name: str
    type: Any
    """A class, or a ``Literal`` of the words that are allowed; ``tuple`` for a list of numbers."""
    required: bool
    default: Any
    description: str = ""
    solve: Safe | None = None
    words: tuple[str, ...] = ()
    """What may be said instead of a number, to leave it open."""
    path: bool = False
    """Whether the value names a file."""
    most: float | None = None
    """The largest value that makes sense."""
    length: int | None = None
    """How many numbers a list of them must have, where that is fixed: they are given one by one."""
    default_text: str | None = None
    """What to say of the default where the value itself does not."""

    @property
    def expected(self) -> str:
        """What may be set, in words: ``a whole number or auto``, ``all or single``."""
        if get_origin(self.type) is Literal:
            return " or ".join(map(str, get_args(self.type)))
        return " or ".join((f"a {_SPOKEN[self.type]}", *self.words))

    @property
    def listed(self) -> bool:
        """Whether it is a list of any length, for which a file of numbers may stand."""
        return self.type is tuple and self.length is None

    @property
    def file(self) -> bool:
        """Whether a text in its place is the name of a file."""
        return self.path or self.listed

    @property
    def chosen(self) -> bool:
        """Whether it may be set to one of a few words."""
        return bool(self.words) or get_origin(self.type) is Literal

    @property
    def shown_default(self) -> str:
        """The default, for people; nothing where there is none to speak of."""
        if self.default_text is not None:
            return self.default_text
        return "" if self.default in (None, ()) else str(self.default)


def fields_of(description: type[msgspec.Struct]) -> dict[str, Field]:
    """The fields of a struct class by name, in the order in which they are written."""
    hints = get_type_hints(description, include_extras=True)
    found = {}
    for each in msgspec.structs.fields(description):
        plain, words, meta = _unwrap(hints[each.name])
        extra = (meta.extra or {}) if meta else {}
        found[each.name] = Field(
            name=each.name,
            type=plain,
            required=each.required,
            default=None if each.default is msgspec.NODEFAULT else each.default,
            description=(meta.description or "") if meta else "",
            solve=extra.get("solve"),
            words=words,
            path=bool(extra.get("path")),
            most=extra.get("most"),
            length=_length(hints[each.name]) if plain is tuple else None,
            default_text=extra.get("default"),
        )
    return found


def _length(hint: Any) -> int | None:
    """How many entries ``Annotated[tuple[int, int] | None, …]`` has; none for any number."""
    while get_origin(hint) is not tuple:
        hint = next(each for each in get_args(hint) if get_args(each))
    entries = get_args(hint)
    return None if ... in entries else len(entries)


def _unwrap(hint: Any) -> tuple[Any, tuple[str, ...], msgspec.Meta | None]:
    """The plain type of ``Annotated[T | Literal[…] | None, Meta(…)]``, its words, its metadata."""
    meta = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        meta = next((each for each in extras if isinstance(each, msgspec.Meta)), None)
    words: tuple[str, ...] = ()
    if tuple in (get_origin(hint), *map(get_origin, get_args(hint))):
        return tuple, words, meta
    if not isinstance(hint, type) and get_origin(hint) is not Literal:
        parts = get_args(hint)
        words = tuple(
            word for each in parts if get_origin(each) is Literal for word in get_args(each)
        )
        hint = next((each for each in parts if isinstance(each, type)), str)
    return hint, words, meta
