"""Entry point of `backhaul` and `python -m backhaul`.

It imports only what the given command needs, so that programs start fast.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import ssl
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from backhaul.app import process_tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

    import typer


def main() -> None:
    """Run the command line and exit with its code."""
    app = program_for(sys.argv[1:])
    from backhaul.cli import exit_codes
    from backhaul.observe.redaction import Redactor

    _make_output_lossless()
    redactor = Redactor()
    sys.exit(exit_codes.run(lambda: app(obj=redactor), sys.argv[1:], redactor))


def program_for(arguments: list[str]) -> typer.Typer:
    """Return the program; for `backhaul run`, only with that command.

    The other commands, and rich for their output, take a twentieth of a start to load.
    """
    # httpx has a command line, for which it would load rich and pygments.
    sys.modules["httpx._main"] = cast("Any", None)
    # pydantic would search all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with process_tuning.paused():
        if [word for word in arguments if word != "--debug"][:1] != ["run"]:
            from backhaul.cli.root import app

            return app
        _load_aiohttp()
        _load_apscheduler()
        from backhaul.cli.context import program
        from backhaul.cli.run import EXAMPLE, run

        alone = program()
        alone.command("run", epilog=EXAMPLE)(run)
        return alone


class LateContext(ssl.SSLContext):
    """Loads the system's certificate authorities at the first connection."""

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection, after loading the authorities."""
        if not self.cert_store_stats()["x509_ca"]:
            self.load_default_certs()
        return super().wrap_bio(*args, **options)


def _load_aiohttp() -> None:
    """Import aiohttp without its two loads of the certificate authorities."""
    make = ssl.create_default_context

    def make_late(*args: Any, **options: Any) -> ssl.SSLContext:
        context = make(*args, **options)
        context.__class__ = LateContext
        return context

    with (
        _instead(ssl.SSLContext, "set_default_verify_paths", lambda _: None),
        _instead(ssl, "create_default_context", make_late),
    ):
        import aiohttp  # noqa: F401 - later imports get this module


def _load_apscheduler() -> None:
    """Import APScheduler without its three searches for plugins."""
    with _instead(importlib.metadata, "entry_points", lambda **_: ()):
        import backhaul.app.schedule  # noqa: F401 - the only module that may import APScheduler


@contextmanager
def _instead(owner: Any, name: str, value: Any) -> Iterator[None]:
    own = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _make_output_lossless() -> None:
    """Keep characters that the locale lacks from ending a command with an error.

    Files and pipes get UTF-8, as `--out` writes it, whatever the locale.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


if __name__ == "__main__":
    main()
