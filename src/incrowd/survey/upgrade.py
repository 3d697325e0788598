"""Surveys of version 1, rewritten as version 2, with their comments.

Version 1 had one question in ``[task]`` and its randomizer in ``[randomizer]``. Lines are moved and
renamed; a value is never touched, except for the names of protocols and of one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from incrowd import toml
from incrowd.errors import InvalidConfig

_HEADER = re.compile(r"\s*\[\s*(\w+)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"(\s*)(\w+)(\s*=)")
_ASIDE = re.compile(r"\s*(#.*)?$")
"""A line that is blank, or only a comment."""
_QUOTES = re.compile(r'"""|\'\'\'')
_DATA: Final = {"data": "file", "schema": "schema"}
_KINDS: Final = {"shuffle": "trusted-shuffle", "scrambler": "scrambled-query"}
_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "task": {"question": "text"},
    "limits": {
        "load": "max_messages",
        "channels": "max_connections",
        "consents": "max_extra_people",
    },
    "live": {"settle": "grace_rounds", "patience": "timeout"},
    "check-in": {"least": "min_participants"},
    "network-shuffle": {
        "mode": "hand_in",
        "within": "target_ratio",
        "share": "target_quantile",
        "peers": "random_peers",
    },
    "token-walk": {"task": "contribution", "spread": "split_noise", "lipschitz": "clip"},
    "scrambler": {
        "mode": "hiding",
        "release": "release_epsilon",
        "answers": "sets_per_person",
        "spares": "standby_scramblers",
        "sampling": "redirect_probability",
    },
}
"""Keys that have another name now, by the table or by the protocol."""


@dataclass(frozen=True)
class _Part:
    """One table of the text: comments above it and beside its name, and its lines."""

    above: str = ""
    beside: str = ""
    body: str = ""

    def written(self, header: str, body: str) -> str:
        """Return the table under another header."""
        named = f"[{header}]" + (f"  {self.beside}" if self.beside else "")
        return "\n".join(filter(None, (self.above, named, body.strip("\n"))))


def upgrade(text: str, name: str) -> str:
    """Return the survey of version 2 that says the same as this one.

    Raises:
        InvalidConfig: It is of version 2 already, or no survey.

    """
    tables = toml.parse(name, text)
    if "task" not in tables:
        told = "of version 2 already" if "question" in tables else "no survey: it has no [task]"
        raise InvalidConfig(f"{name}: the file is {told}")
    parts = _parts(text)
    for table in tables:
        if table not in (*parts, "version"):
            raise InvalidConfig(f"{name}: {table}: write it as a table [{table}], a key per line")
    kind = tables.get("protocol", {}).get("kind", "")
    top, task = parts.pop("").body, parts.pop("task")
    data, question = _divided(task.body)
    kept = [line for line in top.splitlines() if not line.startswith("version")]
    written = ["\n".join(kept).strip("\n"), "version = 2"]
    written += ["[data]\n" + data] if data else []
    written.append(task.written("[question]", _renamed(question, _KEYS["task"])))
    if randomizer := parts.pop("randomizer", None):
        written.append(randomizer.written("question.randomizer", randomizer.body))
    for table, part in parts.items():
        of_protocol = table == "protocol"
        body = _renamed(part.body, _KEYS.get(kind if of_protocol else table, {}))
        written.append(part.written(table, _revalued(body) if of_protocol else body))
    return "\n\n".join(filter(None, (each.strip("\n") for each in written))) + "\n"


def _parts(text: str) -> dict[str, _Part]:
    """The tables by their names; what stands before the first has none."""
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    for line, plain in _lines(text):
        if plain and (header := _HEADER.match(line)):
            found.append((header[1], header[2] or "", []))
        else:
            found[-1][2].append(line)
    parts: dict[str, _Part] = {}
    above: list[str] = []
    for name, beside, lines in found:
        end = len(lines)
        # Comments right above a table are about it; those that open the file are about the file.
        while name and name != found[-1][0] and end and lines[end - 1].lstrip().startswith("#"):
            end -= 1
        parts[name] = _Part("\n".join(above), beside, "\n".join(lines[:end]).strip("\n"))
        above = lines[end:]
    return parts


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines, and whether each begins outside of a text of several lines."""
    outside = True
    for line in text.splitlines():
        yield line, outside
        outside ^= len(_QUOTES.findall(line)) % 2 == 1


def _divided(body: str) -> tuple[str, str]:
    """Lines about the data, and those about the question; comments go with what they precede."""
    data: list[str] = []
    question: list[str] = []
    waiting: list[str] = []
    into = question
    for line, plain in _lines(body):
        if plain and _ASIDE.match(line):
            waiting.append(line)
            continue
        if plain and (key := _KEY.match(line)):
            into = data if key[2] in _DATA else question
            line = _with_key(line, _DATA)
        into += [*waiting, line]
        waiting.clear()
    question += waiting
    return "\n".join(data).strip("\n"), "\n".join(question)


def _renamed(body: str, names: Mapping[str, str]) -> str:
    """The lines with other names of keys."""
    return "\n".join(_with_key(line, names) if plain else line for line, plain in _lines(body))


def _with_key(line: str, names: Mapping[str, str]) -> str:
    key = _KEY.match(line)
    return line if key is None else key[1] + names.get(key[2], key[2]) + line[key.end(2) :]


def _revalued(body: str) -> str:
    """The lines of a protocol with its own name, and the word for what the budget decides."""
    body = re.sub(r'(?m)^(\s*\w+\s*=\s*)"budget"', r'\1"calibrate"', body)
    named = r'(?m)^(\s*kind\s*=\s*)"([\w-]+)"'
    return re.sub(named, lambda x: f'{x[1]}"{_KINDS.get(x[2], x[2])}"', body)
