"""Groups in a JSON file: a list of groups, or an object that gives the group of each person.

    [[0, 1, 2], [2, 3]]
    {"0": [0, 1], "1": [1, 0, 2], "2": [2]}

People are whole numbers from 0. Every failure is one line that names the file and the group.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from incrowd.errors import EmptyData, FileUnreadable, InvalidParameter
from incrowd.protocols.order_shuffle.groupings.lists import ListedGroups, from_lists, from_owners


def load(path: str | Path, n: int | None = None) -> ListedGroups:
    """Read groups; ``n`` people, or as many as the file names."""
    path = Path(path)
    found = read_json(path, "a list of groups, such as [[0, 1], [1, 2]]")
    where, words = f"{path}: ", f"the groups of {path.name}"
    if isinstance(found, list):
        return from_lists(found, n, where=where, words=words)
    if isinstance(found, dict):
        if not found:
            raise EmptyData(f"{where}there are no groups; at least one is needed")
        owners = {_person(key, path): group for key, group in found.items()}
        if n is not None and len(owners) != n:
            raise InvalidParameter(f"{where}has groups of {len(owners)} people, not of {n}")
        return from_owners(owners, where=where, words=words)
    raise InvalidParameter(
        f"{where}must hold a list of groups, or an object with the group of each person"
    )


def read_json(path: str | Path, wanted: str) -> Any:
    """Read a JSON file; errors say to write ``wanted`` into it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{path}: not UTF-8 text ({error.reason})") from None
    if not text.strip():
        raise EmptyData(f"{path}: the file is empty; write {wanted}")
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except json.JSONDecodeError as error:
        raise InvalidParameter(
            f"{path}, line {error.lineno}: not JSON ({error.msg}); write {wanted}"
        ) from None
    except InvalidParameter:
        raise
    except (RecursionError, ValueError):
        raise InvalidParameter(f"{path}: cannot be read as JSON; write {wanted}") from None


def _once(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidParameter(f"{path}: the group of {twice} is given twice; keep one")
    return found


def _person(key: str, path: Path) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and key == str(int(key))):
        raise InvalidParameter(
            f'{path}: {key[:60]!r} is not a person; keys are whole numbers such as "0"'
        )
    return int(key)
