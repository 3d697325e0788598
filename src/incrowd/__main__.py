"""``python -m incrowd``: the command line."""

from __future__ import annotations

import sys

from incrowd.cli import main

if __name__ == "__main__":
    sys.exit(main())
