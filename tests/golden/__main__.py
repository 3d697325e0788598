"""Compare every golden value with what the library computes: ``python -m tests.golden [--write]``.

Prints which values change; with ``--write`` records the new ones.
"""

from __future__ import annotations

import argparse
import sys

from tests.golden.golden import differences, recorded, renewed, write
from tests.golden.grid import CASES


def main() -> int:
    """Ends with 1 where something differs and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the new values")
    parser.add_argument("groups", nargs="*", metavar="PROTOCOL", help=", ".join(CASES))
    chosen = parser.parse_args()
    changed = 0
    for group in chosen.groups or CASES:
        found = renewed(group)
        lines = list(differences(recorded(group), found))
        for line in lines:
            print(line)
        changed += len(lines)
        if chosen.write and lines:
            write(group, found)
    print(f"{changed} values differ" + (", and are recorded anew" if chosen.write else ""))
    return 1 if changed and not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
