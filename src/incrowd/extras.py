"""Packages that only an extra installs, and the error that names the extra where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from incrowd.errors import MissingExtra

__all__ = ["EXTRAS", "missing_extra", "needed_extra"]

EXTRAS = {
    "live": ("cryptography", "starlette", "uvicorn", "websockets", "httpx", "psycopg", "nats"),
    "data": ("duckdb", "pyarrow"),
    "sql": ("sqlglot",),
    "learn": ("torch",),
    "plot": ("matplotlib",),
}
"""Modules that each extra of the package installs."""

_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}


def missing_extra(
    error: ModuleNotFoundError, needs: str = "this command needs", otherwise: str = ""
) -> MissingExtra | None:
    """Return the error that names the extra of a module that was not found; None of any other.

    Args:
        error: What the import raised.
        needs: Beginning of the line, up to the module.
        otherwise: What to do instead of installing, where something is.

    """
    module = str(error.name).partition(".")[0]
    if module not in _EXTRA_OF:
        return None
    remedy = f"pip install 'incrowd[{_EXTRA_OF[module]}]'"
    told = f"{remedy}, or {otherwise}" if otherwise else remedy
    return MissingExtra(f"{needs} {module}, which is not installed: {told}")


@contextmanager
def needed_extra(needs: str, otherwise: str = "") -> Iterator[None]:
    """Name the extra where an import inside finds no module; words are as above."""
    try:
        yield
    except ModuleNotFoundError as error:
        named = missing_extra(error, needs, otherwise)
        if named is None:
            raise
        raise named from error
