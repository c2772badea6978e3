"""Looks whether each connector could work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from backhaul.connect import registry
from backhaul.connect.guarding import ConnectorFailed, guarded
from backhaul.connect.notices import read_notices
from backhaul.doctor.result import Result, fail, ok, warn
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from backhaul.settings import Connector

CHECK_SECONDS = 30.0


async def look(name: str, own: Connector) -> Result:
    """Ask one instance to look for itself, which has no side effects."""
    if not own.enabled:
        return ok("connector", "is disabled", name)
    try:
        connector = registry.build(name, own.type, own.options)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await guarded(connector.check())
            notices = read_notices(connector)
        finally:
            with suppress(ConnectorFailed):
                await guarded(connector.close())
    except TimeoutError:
        return _failed(name, own, f"gave no answer in {CHECK_SECONDS:g} s")
    except (ConnectorFailed, BackhaulError) as error:
        return _failed(name, own, str(error))
    if notices:
        fix = (
            f"see docs/connectors/{own.type}.md, then: backhaul connectors check {name}"
        )
        return warn("connector", "; ".join(notices), fix, name)
    return ok("connector", f"{own.type} is ready to work", name)


def _failed(name: str, own: Connector, said: str) -> Result:
    return fail("connector", said, _fix(name, own, "mend it, or its system"), name)


def _fix(name: str, own: Connector, what: str) -> str:
    page = f"docs/connectors/{own.type}.md"
    return f"{what}, then: backhaul connectors check {name} ({page})"
