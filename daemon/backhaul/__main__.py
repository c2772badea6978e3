"""`backhaul` and `python -m backhaul`."""

from __future__ import annotations

import sys

from backhaul.cli import exits
from backhaul.cli.root import app


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(exits.run(app, sys.argv[1:]))


if __name__ == "__main__":
    main()
