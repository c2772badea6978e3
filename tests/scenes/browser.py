"""A real browser, and a record of its requests, errors and warnings."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import (
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
    expect,
)

from scenes.requirements import require
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
MOST_STEPS = 60
PATIENCE_MILLISECONDS = HANG_SECONDS * 1_000
REFUSAL = re.compile(r"Failed to load resource: .* status of (\d{3})")
INSIDE = ("data:", "blob:", "about:")
"""URL schemes that need no server."""


@dataclass(slots=True)
class Watch:
    """The requests and errors of one user's pages; `refusals` are expected statuses.

    `others` are other sites that the user visits; their pages are not checked.
    """

    context: BrowserContext
    origins: set[str]
    refusals: set[int] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.context.on("request", lambda request: self._note(request))
        self.context.on("console", lambda told: self._record_failure(told))
        self.context.on(
            "weberror", lambda told: self.complaints.append(str(told.error))
        )

    def _note(self, request: Request) -> None:
        if (worker := request.service_worker) is not None:
            is_theirs = self._is_theirs(worker.url)
        elif request.is_navigation_request():
            is_theirs = self._is_theirs(request.url)
        else:
            is_theirs = self._is_theirs(request.frame.url)
        if not is_theirs:
            self.asked.append(request.url)

    def _is_theirs(self, url: str) -> bool:
        return url.startswith(tuple(f"{origin}/" for origin in self.others))

    def _record_failure(self, message: ConsoleMessage) -> None:
        kind, text = message.type, message.text
        if self._is_theirs(message.page.url if message.page else ""):
            return
        refused = REFUSAL.match(text)
        if refused and int(refused[1]) in self.refusals:
            return
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def foreign_requests(self) -> list[str]:
        own = (*INSIDE, *(f"{origin}/" for origin in self.origins))
        return [url for url in self.asked if not url.startswith(own)]

    def check(self) -> None:
        """Fail if a page logged an error, or sent a request to another server."""
        elsewhere = self.foreign_requests()
        if self.complaints or elsewhere:
            told = [*self.complaints, *(f"asked {url}" for url in elsewhere)]
            pytest.fail("the browser: " + "\n".join(told), pytrace=False)


@dataclass(frozen=True, slots=True)
class Visit:
    """A user at a page, who can work with the keyboard alone."""

    page: Page
    watch: Watch

    async def another(self) -> Visit:
        """Open a second page; its requests and errors are recorded too."""
        return Visit(await self.page.context.new_page(), self.watch)

    async def tab_to(self, name: str) -> None:
        """Press Tab until the element with this accessible name has the focus."""
        for _ in range(MOST_STEPS):
            await self.page.keyboard.press("Tab")
            if name in await self._focused():
                return
        pytest.fail(f"the keyboard never reaches {name!r}")

    async def _focused(self) -> str:
        found: str = await self.page.evaluate(
            """() => {
              const at = document.activeElement;
              const label = at.labels?.[0]?.innerText ?? "";
              return at.ariaLabel ?? (label || at.innerText);
            }"""
        )
        return found

    async def write(self, name: str, text: str) -> None:
        await self.tab_to(name)
        await self.page.keyboard.type(text)

    async def go(self, name: str) -> None:
        await self.tab_to(name)
        await self.page.keyboard.press("Enter")

    async def await_page(self, title: str) -> None:
        heading = self.page.get_by_role("heading", level=1, name=title)
        await expect(heading).to_be_focused()


@asynccontextmanager
async def open_visit(*origins: str) -> AsyncIterator[Visit]:
    """Open a new browser that may access these origins; check it when it closes."""
    program = require("chromium")
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=list(ARGUMENTS)
        )
        context = await browser.new_context(reduced_motion="reduce")
        watch = Watch(context, set(origins))
        watch.listen()
        yield Visit(await context.new_page(), watch)
        await browser.close()
    watch.check()
