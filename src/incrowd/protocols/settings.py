"""Settings of protocols, and what can be set in any description, read from its own fields.

Protocol parameters and randomizers are frozen ``msgspec.Struct`` classes. Everything that lets a
person set them (tables of a survey file, options of the command line, the choice of what
``calibrate`` solves for) is derived here from their fields, so that adding a field is one line in
one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import msgspec

from incrowd import checks
from incrowd.errors import ProtocolFailed
from incrowd.tasks.base import Collected

Safe = Literal["min", "max"]
"""Which side of a solved parameter is safe: the least value that meets the budget, or the most."""

_SPOKEN = {
    int: "whole number",
    float: "number",
    bool: "truth value",
    str: "text",
    tuple: "list of numbers",
}


def parameter(
    description: str,
    solve: Safe | None = None,
    *,
    most: float | None = None,
    path: bool = False,
    default: str | None = None,
) -> Any:
    """Metadata of one field of ``Parameters``: its help text, and which side of it is safe.

    ``most``: the largest value that makes sense. ``path``: it names a file, relative to the survey
    that does. ``default``: what to say of its default where the value itself does not.
    """
    extra = {"solve": solve, "most": most, "path": path, "default": default}
    return msgspec.Meta(description=description, extra=extra)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters every protocol has."""

    any_crowd: ClassVar[bool] = False
    """Whether n = 0 stands for any number of people."""

    n: Annotated[int, parameter("people who take part, the victim included", solve="min")]

    def __post_init__(self) -> None:
        """Refuse what describes no crowd."""
        msgspec.structs.force_setattr(self, "n", checks.crowd(self.n))

    def files(self) -> list[str]:
        """The files that these parameters name."""
        hints = get_type_hints(type(self), include_extras=True)
        named = [
            getattr(self, name)
            for name, hint in hints.items()
            for each in getattr(hint, "__metadata__", ())
            if each.extra and each.extra.get("path")
        ]
        return [each for each in named if each]


class RoundParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of protocols in which everyone reports once per round."""

    rounds: Annotated[int, parameter("fresh reports from every person", solve="max")] = 1

    def __post_init__(self) -> None:
        """Refuse fewer than one round."""
        Parameters.__post_init__(self)
        msgspec.structs.force_setattr(self, "rounds", checks.integer(self.rounds, "rounds", 1))

    def conditional_on(self, collected: Collected) -> Self:
        """All planned rounds but empty ones, each with the crowd of the smallest.

        Reports of all rounds are sent at the start, and rounds close by the clock: attendance
        alone decides how many arrive. A round without reports reveals nothing. Taking the smallest
        crowd for all is cautious: a larger crowd is a smaller one to which reports of others were
        added. Rounds that are missing were not awaited, perhaps because of what came before: they
        are charged, and unless everyone was there in the others, without a crowd. See
        ``docs/theory/stopping.md``.
        """
        crowds = [crowd for crowd in collected.crowds if crowd > 0]
        if not crowds:
            raise ProtocolFailed(
                f"none of the {collected.sent} reports arrived: lower the faults or give people "
                "more time"
            )
        empty = len(collected.crowds) - len(crowds)
        stopped = len(collected.crowds) < self.rounds
        alone = stopped and (empty > 0 or min(crowds) < self.n)
        crowd = 1 if alone else min(crowds)
        return msgspec.structs.replace(self, n=crowd, rounds=max(1, self.rounds - empty))


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
