"""The daemon loads modules and certificates only when it needs them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from scenes.certificates import of_this_machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LOADED = """
import asyncio, importlib.metadata, ssl, sys
before = ssl.create_default_context, ssl.SSLContext.set_default_verify_paths
before += (importlib.metadata.entry_points,)
from backhaul.__main__ import program_for
program_for(["--debug", "run"])
after = ssl.create_default_context, ssl.SSLContext.set_default_verify_paths
after += (importlib.metadata.entry_points,)
"""
ASKING = """
import aiohttp, uvloop

async def ask():
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(sys.argv[1]) as answer:
                print(await answer.text())

try:
    uvloop.run(ask())
except aiohttp.ClientConnectorCertificateError as error:
    print("refused", error.certificate_error.reason)
"""


@pytest.fixture
async def behind_tls(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """Return an HTTPS address and its certificate."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="told")

    certificate, context = of_this_machine(tmp_path)
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    yield f"https://127.0.0.1:{port}/", certificate
    await runner.cleanup()


async def said(program: str, *arguments: str, **environment: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout


async def test_authorities_are_read_with_the_first_connection(
    behind_tls: tuple[str, Path],
) -> None:
    address, certificate = behind_tls
    trusting = await said(LOADED + ASKING, address, SSL_CERT_FILE=str(certificate))
    assert trusting == "told\ntold\n"


async def test_a_server_without_a_trusted_certificate_is_refused(
    behind_tls: tuple[str, Path], tmp_path: Path
) -> None:
    address, _ = behind_tls
    (tmp_path / "none.pem").write_text("")
    wary = await said(
        LOADED + ASKING, address, SSL_CERT_FILE=str(tmp_path / "none.pem")
    )
    assert wary == "refused CERTIFICATE_VERIFY_FAILED\n"


async def test_blocked_modules_are_restored() -> None:
    told = await said(f"{LOADED}\nprint(before == after, 'rich' in sys.modules)")
    assert told == "True False\n"


async def test_a_daemon_on_sqlite_loads_nothing_of_postgresql(tmp_path: Path) -> None:
    opened = f"""
from pathlib import Path
import backhaul.app.daemon
from backhaul.core.clock import SystemClock
from backhaul.store import database_at, open_store
open_store(Path({str(tmp_path / "backhaul.db")!r}), SystemClock())
print([m for m in sys.modules if "postgres" in m or "psycopg" in m])
"""
    assert await said(LOADED + opened) == "[]\n"
