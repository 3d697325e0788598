"""The hub's log: one line per event on standard error, for machines or for people.

An event is a word from the code and, at most, a closed-set field such as a reason. Identifiers of
people, their names, addresses and the sizes of what they send are never logged: a log is copied to
more places than a database.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Literal

import msgspec

from incrowd.live.supervisor import LOGGER

LogFormat = Literal["json", "text"]

_LOGGER = logging.getLogger("incrowd.hub")
_OURS = (_LOGGER.name, LOGGER)


def log(event: str, level: int = logging.INFO, **fields: str | int | bool) -> None:
    """Say that something happened; fields must come from closed sets."""
    _LOGGER.log(level, event, extra={"fields": fields})


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name in _OURS else "server",
        }
        if record.name not in _OURS:
            line["message"] = record.getMessage()
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        line = f"{_stamp(record)} {record.levelname.lower()} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + "Z"


def configure(form: LogFormat) -> None:
    """Send events, and what goes wrong in the server underneath, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Text())
    for name, level in (
        *((name, logging.INFO) for name in _OURS),
        # Below warnings the server logs the addresses of its callers.
        ("uvicorn.error", logging.WARNING),
        ("asyncio", logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level)
