"""TOML files that people write, and what is wrong with one in a single line: file, key, remedy."""

from __future__ import annotations

import codecs
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from incrowd.errors import FileUnreadable, MalformedConfig

_TYPE_NAMES = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "array": "list",
    "list": "list",
    "object": "table",
    "dict": "table",
}
"""What people call the types of TOML values, by what Python and msgspec call them."""


def read_text(path: Path, what: str) -> str:
    """The text of a file that holds ``what``, such as ``survey``; refuses what is not UTF-8.

    A byte-order mark, which some editors put in front, is left out.
    """
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot read the {what}: {error.strerror}") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise MalformedConfig(
            f"{path}: {_place(before)}: not UTF-8 text: save the file as UTF-8"
        ) from error


def parse(name: str, text: str) -> dict[str, Any]:
    """The tables in the text of the file ``name``; what is no TOML is refused with its place."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).removesuffix(")").rpartition(" (at ")
        where = place if place.startswith("line") else _place(text)
        raise MalformedConfig(f"{name}: {where}: {problem[:1].lower()}{problem[1:]}") from error


def spoken(name: str) -> str:
    """The name of a type as people say it."""
    return _TYPE_NAMES.get(name, name)


def explain(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split an error of msgspec into a path such as ``.bounds[1]`` and a plain message."""
    message, _, place = str(error).partition(" - at ")
    where = place.strip("`").removeprefix("$")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    if missing:
        return f"{where}.{missing[1]}", "missing; add this key"
    plain = re.sub(r"`(\w+)(?: \| null)?`", lambda type_: spoken(type_[1]), message)
    plain = plain.replace("`", "")
    return where, f"{plain[:1].lower()}{plain[1:]}"


def _place(before: str) -> str:
    """The line and column just after this text."""
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
