"""`backhaul` and `python -m backhaul`."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, cast

from backhaul import garbage

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line and exit with its code."""
    # httpx offers a command line, for which it would load rich and pygments.
    sys.modules["httpx._main"] = cast("Any", None)
    with garbage.unsought():
        from backhaul.cli import exits
        from backhaul.observe.redaction import Redactor

        app = program_for(sys.argv[1:])
    _let_all_be_told()
    redactor = Redactor()
    sys.exit(exits.run(lambda: app(obj=redactor), sys.argv[1:], redactor))


def _let_all_be_told() -> None:
    """Let no letter end a command that a locale lacks: a name has any.

    Files and pipes get UTF-8, as `--out` writes it, whatever the locale.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def program_for(arguments: list[str]) -> typer.Typer:
    """Return the program; where a daemon is to run, without its other commands.

    To load them, and rich to print what they find, takes a twentieth of a start.
    """
    if arguments[:1] != ["run"]:
        from backhaul.cli.root import app

        return app
    from backhaul.cli.program import program
    from backhaul.cli.running import run

    alone = program()
    alone.command("run")(run)
    return alone


if __name__ == "__main__":
    main()
