"""Entry point of `backhaul` and `python -m backhaul`."""

from __future__ import annotations

import io
import sys

from backhaul.cli import lazy_imports


def main() -> None:
    """Run the command line and exit with its code."""
    app = lazy_imports.program_for(sys.argv[1:])
    from backhaul.cli import exit_codes
    from backhaul.observe.redaction import Redactor

    _make_output_lossless()
    redactor = Redactor()
    sys.exit(exit_codes.run(lambda: app(obj=redactor), sys.argv[1:], redactor))


def _make_output_lossless() -> None:
    """Keep characters that the locale lacks from ending a command with an error.

    Files and pipes get UTF-8, as `--out` writes it, whatever the locale.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


if __name__ == "__main__":
    main()
