"""A browser on a device: keeps its profile, and can be killed at any time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.async_api import Browser, Page, async_playwright, expect

from scenes import leftovers
from scenes.browser import ARGUMENTS, PATIENCE_MILLISECONDS
from scenes.loop_guard import on_purpose
from scenes.requirements import require
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Playwright

HOST = "scans.example"
"""The name by which devices reach the daemon; for these browsers it is 127.0.0.1."""
_PORT_FILE = "DevToolsActivePort"


def trusting(certificate: Path) -> tuple[str, ...]:
    """Return arguments with which a browser trusts a server's certificate.

    Service workers need a trusted certificate.
    """
    read = x509.load_pem_x509_certificate(certificate.read_bytes())
    key = read.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode()
    return (f"--ignore-certificate-errors-spki-list={digest}",)


@dataclass(slots=True)
class DeviceBrowser:
    """Starts browsers on one profile, one after another."""

    playwright: Playwright
    profile: Path
    arguments: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None
    _browser: Browser | None = None
    _log: Path = field(default_factory=lambda: leftovers.new_log("browser"))

    async def start(self) -> Page:
        """Start a browser, and return its first page."""
        port_file = self.profile / _PORT_FILE
        port_file.unlink(missing_ok=True)
        self._launch()
        told = await until(lambda: _lines(port_file), "the browser listens")
        self._browser = await self.playwright.chromium.connect_over_cdp(
            f"http://127.0.0.1:{told[0]}"
        )
        context = self._browser.contexts[0]
        return context.pages[0] if context.pages else await context.new_page()

    async def another(self) -> Page:
        """Return a new tab of the running browser."""
        assert self._browser is not None
        return await self._browser.contexts[0].new_page()

    async def kill(self) -> None:
        """Kill every process of the browser (SIGKILL)."""
        process, self._process = self._process, None
        if process is None:
            return
        os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        if self._browser is not None:
            await self._browser.close()

    @on_purpose()
    def _launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, start_new_session=True
            )

    def _command(self) -> list[str]:
        command = [require("chromium"), "--headless=new", *ARGUMENTS, *self.arguments]
        command += [f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
        command += [f"--user-data-dir={self.profile}", "--remote-debugging-port=0"]
        return [*command, "about:blank"]


def _lines(file: Path) -> list[str]:
    """Return the lines of a file, none before the file is written."""
    found = file.read_text().splitlines() if file.exists() else []
    return found if len(found) > 1 else []


@asynccontextmanager
async def device_browser(
    profile: Path, *arguments: str
) -> AsyncIterator[DeviceBrowser]:
    """Prepare a device; its browser is killed at the end."""
    require("chromium")
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    async with async_playwright() as playwright:
        device = DeviceBrowser(playwright, profile, arguments)
        try:
            yield device
        finally:
            await device.kill()
