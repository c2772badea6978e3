"""Imports only what the given command needs, so that programs start fast."""

from __future__ import annotations

import importlib.metadata
import os
import ssl
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from backhaul.app import gc_tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

    import typer


class LateContext(ssl.SSLContext):
    """Reads the authorities that the system trusts with the first connection."""

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection; until now nobody could be trusted."""
        if not self.cert_store_stats()["x509_ca"]:
            self.load_default_certs()
        return super().wrap_bio(*args, **options)


def program_for(arguments: list[str]) -> typer.Typer:
    """Return the program; where a daemon is to run, without its other commands.

    To load them, and rich to print what they find, takes a twentieth of a start.
    """
    # httpx offers a command line, for which it would load rich and pygments.
    sys.modules["httpx._main"] = cast("Any", None)
    # pydantic would look for plugins through all that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with gc_tuning.paused():
        if [word for word in arguments if word != "--debug"][:1] != ["run"]:
            from backhaul.cli.root import app

            return app
        _load_aiohttp()
        _load_apscheduler()
        from backhaul.cli.context import program
        from backhaul.cli.run import run

        alone = program()
        alone.command("run")(run)
        return alone


def _load_aiohttp() -> None:
    """It reads all authorities twice, also for a context that trusts anybody."""
    make = ssl.create_default_context

    def make_late(*args: Any, **options: Any) -> ssl.SSLContext:
        context = make(*args, **options)
        context.__class__ = LateContext
        return context

    with (
        _instead(ssl.SSLContext, "set_default_verify_paths", lambda _: None),
        _instead(ssl, "create_default_context", make_late),
    ):
        import aiohttp  # noqa: F401 - whoever imports it gets this one


def _load_apscheduler() -> None:
    """It looks three times for what others have installed for it."""
    with _instead(importlib.metadata, "entry_points", lambda **_: ()):
        import backhaul.app.schedule  # noqa: F401 - nobody else may import APScheduler


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
