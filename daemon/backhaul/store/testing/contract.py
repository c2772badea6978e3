"""What an engine's test file gives to the conformance tests, as fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from backhaul.core.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.store import Store

OpenStore: TypeAlias = "Callable[[], Awaitable[Store]]"
"""The fixture `open_store`: opens and starts one more store on the same database."""


class MovableClock(Clock, Protocol):
    """The fixture `clock`: it stands still until a test moves it."""

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def set_by(self, seconds: float) -> None:
        """Set the wall clock, while no time passes."""
        ...
