"""Columns by name: refusal of those that are missing, or there more than once."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from incrowd.data.problems import Problems, listed
from incrowd.errors import MissingColumn


def check_columns(
    problems: Problems, names: Sequence[str], wanted: Sequence[str] | None = None
) -> None:
    """Note each wanted column that is not there exactly once; by default, each doubled name.

    Columns without a name may be there several times: nobody can ask for them.
    """
    times = Counter(names)
    for name in dict.fromkeys(each for each in names if each) if wanted is None else wanted:
        if times[name] > 1:
            problems.add(
                MissingColumn, f"more than one column {name!r}", "rename all of them but one"
            )
        elif not times[name]:
            close = difflib.get_close_matches(name, names, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            problems.add(
                MissingColumn, f"no column {name!r}", f"{meant}the file has {listed(names)}"
            )
