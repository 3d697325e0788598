"""Everything that can go wrong, each kind with its own exit code.

One line says what was wrong, where, and what to do. The command line prints that line and exits
with ``exit_code``; the library raises the same exception. Codes are grouped by ten: parameters,
data, configuration, graphs, privacy, environment. Each has a page ``docs/errors/<code>.md``.

Raise sites name the setting that is wrong (``field``) and know nothing of files or options. The
layer that read the setting locates the error: ``located`` puts a file in front, ``called`` gives
the setting the name that the reader knows it by. Text, field and place stay apart until the error
is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

__all__ = [
    "BudgetExceeded",
    "BudgetInfeasible",
    "Declined",
    "EmptyData",
    "FileNotWritable",
    "FileUnreadable",
    "GraphMalformed",
    "HubRefused",
    "HubUnreachable",
    "IncrowdError",
    "InvalidConfig",
    "InvalidCrowd",
    "InvalidDelta",
    "InvalidEpsilon",
    "InvalidGraph",
    "InvalidParameter",
    "InvalidQuery",
    "MalformedConfig",
    "MessageRejected",
    "MissingColumn",
    "MissingExtra",
    "NotANumber",
    "NotProven",
    "NumericalFloor",
    "PluginInvalid",
    "ProtocolFailed",
    "ServiceFailed",
    "StoreUnavailable",
    "UnknownCategory",
    "UnmatchedPeople",
    "all_errors",
    "located",
]


class IncrowdError(Exception):
    """Base of every error that a caller or an input can cause.

    Args:
        *args: The text, one line.
        field: Name of the parameter or setting that is wrong, as the raising code calls it. The
            text may begin with it.

    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *args: object, field: str | None = None) -> None:
        super().__init__(*args)
        self.field = field
        self.where: tuple[str, ...] = ()
        """Places, the outermost first, such as a file and one of its tables."""
        self._called: str | None = None

    @property
    def opens_with_field(self) -> bool:
        """Whether the text begins with the name of the field."""
        return self.field is not None and super().__str__().startswith(f"{self.field} ")

    def located(self, *where: str) -> Self:
        """Put a place in front of the error, such as a file and a table, and return the error."""
        self.where = (*where, *self.where)
        return self

    def called(self, name: str) -> Self:
        """Give the field another name, such as an option or a key, and return the error.

        The first name stays, and an error that is located already is named there.
        """
        if self._called is None and not self.where:
            self._called = name
        return self

    def __str__(self) -> str:
        """Places, the field by its name, and the text."""
        text = super().__str__()
        if self._called is not None:
            # A text that begins with the field goes on as a sentence about it.
            rest = text.removeprefix(str(self.field))
            text = self._called + (rest if self.opens_with_field else f": {text}")
        return ": ".join((*self.where, text))


class InvalidParameter(IncrowdError, ValueError):
    """A parameter is out of its range or contradicts another one."""

    exit_code = 10


class InvalidEpsilon(InvalidParameter):
    """An epsilon is not a positive finite number."""

    exit_code = 11


class InvalidDelta(InvalidParameter):
    """A delta is not in the open interval (0, 1)."""

    exit_code = 12


class InvalidCrowd(InvalidParameter):
    """A number of people is not a positive integer, or too small for the protocol."""

    exit_code = 13


class FileUnreadable(IncrowdError):
    """A file is missing or cannot be read."""

    exit_code = 20


class StoreUnavailable(FileUnreadable):
    """A store or a journal cannot be used now; the same work may succeed later."""


class EmptyData(IncrowdError, ValueError):
    """A data file has no rows."""

    exit_code = 21


class MissingColumn(IncrowdError, ValueError):
    """A data file has no such column."""

    exit_code = 22


class UnknownCategory(IncrowdError, ValueError):
    """A label or a code is not one of the categories."""

    exit_code = 23


class NotANumber(IncrowdError, ValueError):
    """A value that must be a finite number, or one within a range, is not."""

    exit_code = 24


class FileNotWritable(IncrowdError):
    """A file or a directory cannot be written, or exists and must not be replaced."""

    exit_code = 25


class UnmatchedPeople(IncrowdError, ValueError):
    """People have no name of their own, or two files name different people."""

    exit_code = 26


class MalformedConfig(IncrowdError, ValueError):
    """A survey file or policy is not valid TOML."""

    exit_code = 30


class InvalidConfig(IncrowdError, ValueError):
    """A survey file or policy is valid TOML but does not describe one."""

    exit_code = 31


class InvalidQuery(IncrowdError, ValueError):
    """SQL that cannot be read, or that asks for more than can be answered this way."""

    exit_code = 32


class InvalidGraph(IncrowdError, ValueError):
    """A graph cannot carry the protocol, such as one with an isolated vertex."""

    exit_code = 40


class GraphMalformed(IncrowdError, ValueError):
    """A graph file is not in the format that its name says."""

    exit_code = 41


class BudgetInfeasible(IncrowdError, ValueError):
    """No value of the free parameter meets the budget."""

    exit_code = 50


class NumericalFloor(IncrowdError, ArithmeticError):
    """The question is below what double precision can certify."""

    exit_code = 51


class NotProven(IncrowdError):
    """There is no proven bound for this combination, so none is stated."""

    exit_code = 52


class BudgetExceeded(IncrowdError):
    """A run went otherwise than planned, and its guarantee is weaker than the budget."""

    exit_code = 53


class MissingExtra(IncrowdError, ImportError):
    """An optional dependency is not installed."""

    exit_code = 60


class ProtocolFailed(IncrowdError, RuntimeError):
    """A protocol was played and could not finish."""

    exit_code = 61


class HubUnreachable(IncrowdError, OSError):
    """The hub of a live survey does not answer."""

    exit_code = 62


class HubRefused(IncrowdError, RuntimeError):
    """The hub of a live survey answered, and said no."""

    exit_code = 63


class MessageRejected(IncrowdError):
    """Something that came over the network is not what it must be."""

    exit_code = 64


class Declined(IncrowdError):
    """A device does not take part in a survey, for its owner's sake."""

    exit_code = 65


class PluginInvalid(IncrowdError):
    """A randomizer, task or protocol of another package cannot be used."""

    exit_code = 66


class ServiceFailed(IncrowdError, RuntimeError):
    """A background task of a live process failed again and again."""

    exit_code = 70


@contextmanager
def located(*where: str) -> Iterator[None]:
    """Put a place, such as a file, in front of every error that is raised inside."""
    try:
        yield
    except IncrowdError as error:
        error.located(*where)
        raise


def all_errors() -> dict[int, type[IncrowdError]]:
    """Every error class by its exit code."""
    found: dict[int, type[IncrowdError]] = {}
    stack: list[type[IncrowdError]] = [IncrowdError]
    while stack:
        kind = stack.pop()
        found.setdefault(kind.exit_code, kind)
        stack.extend(kind.__subclasses__())
    return dict(sorted(found.items()))
