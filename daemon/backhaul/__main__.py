"""`backhaul` and `python -m backhaul`."""

from __future__ import annotations

import sys

from backhaul import garbage


def main() -> None:
    """Run the command line and exit with its code."""
    garbage.look_less_often()
    # Hundreds of modules are made from here on: none of it is garbage.
    from backhaul.cli import exits
    from backhaul.cli.root import app
    from backhaul.observe.redaction import Redactor

    redactor = Redactor()
    sys.exit(exits.run(lambda: app(obj=redactor), sys.argv[1:], redactor))


if __name__ == "__main__":
    main()
