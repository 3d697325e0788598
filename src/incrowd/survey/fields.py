"""What can be set in a description, read from the description itself.

Protocol parameters and randomizers are ``msgspec.Struct`` classes. Everything that lets a person
set them (tables of a survey file, options of the command line, the choice of what ``calibrate``
solves for) is derived here from their fields, so that adding a field is one line in one place.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from incrowd.protocols.base import Safe

__all__ = ["Field", "did_you_mean", "fields_of"]


@dataclass(frozen=True)
class Field:
    """One field of a description: its plain type, its help text, and how it may be solved for."""

    name: str
    type: Any
    """A class, or a ``Literal`` of the words that are allowed."""
    required: bool
    default: Any
    description: str = ""
    solve: Safe | None = None


def fields_of(description: type[msgspec.Struct]) -> dict[str, Field]:
    """The fields of a struct class by name, in the order in which they are written."""
    hints = get_type_hints(description, include_extras=True)
    found = {}
    for each in msgspec.structs.fields(description):
        plain, meta = _unwrap(hints[each.name])
        found[each.name] = Field(
            name=each.name,
            type=plain,
            required=each.required,
            default=None if each.default is msgspec.NODEFAULT else each.default,
            description=(meta.description or "") if meta else "",
            solve=(meta.extra or {}).get("solve") if meta else None,
        )
    return found


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the closest known word, or all of them."""
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1)
    if close and word.endswith(f"-{close[0]}"):
        # A known word with something in front is another thing, not a slip of the pen.
        close = []
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(options)}"


def _unwrap(hint: Any) -> tuple[Any, msgspec.Meta | None]:
    """The plain type of ``Annotated[T | None, Meta(…)]``, with its metadata."""
    meta = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        meta = next((each for each in extras if isinstance(each, msgspec.Meta)), None)
    if not isinstance(hint, type) and get_origin(hint) is not Literal:
        hint = next((each for each in get_args(hint) if isinstance(each, type)), str)
    return hint, meta
