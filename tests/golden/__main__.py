"""Compare every golden value with what the library computes: ``python -m tests.golden [--write]``.

Prints which values change; with ``--write`` records the new ones.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tests.golden.golden import NOISE, differences, recorded, renewed, write
from tests.golden.grid import CASES


def _kept(due: Any, found: Any) -> Any:
    return found if due is None or any(differences(due, found, noise=NOISE)) else due


def main() -> int:
    """Ends with 1 where something differs and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the new values")
    parser.add_argument("groups", nargs="*", metavar="PROTOCOL", help=", ".join(CASES))
    chosen = parser.parse_args()
    changed = 0
    for group in chosen.groups or CASES:
        due, found = recorded(group), renewed(group)
        lines = list(differences(due, found, noise=NOISE))
        for line in lines:
            print(line)
        changed += len(lines)
        if chosen.write and lines:
            # Last digits of another processor are no change: cases without any stay as they are.
            write(group, {name: _kept(due.get(name), each) for name, each in found.items()})
    print(f"{changed} values differ" + (", and are recorded anew" if chosen.write else ""))
    return 1 if changed and not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
