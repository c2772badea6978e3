"""A database that refuses writes for a moment ends no loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.app import Daemon
from backhaul.cli import context
from backhaul.errors import Busy
from support.clock import RunningClock
from support.daemon import NOBODY, Office

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Office(NOBODY.removesuffix("/hook"), "svc_live_" + "0" * 40)
    yield Daemon(context.settings(made.config), clock=RunningClock())
    made.remove()


BUSY = Busy("the disk is full")
REFUSED = [BUSY, ExceptionGroup("", [BUSY, ExceptionGroup("", [BUSY])])]


@pytest.mark.parametrize("refused", REFUSED, ids=["alone", "in a group"])
async def test_a_loop_is_run_again(refused: Exception, daemon: Daemon) -> None:
    failures = [refused, refused]

    async def run() -> None:
        if failures:
            raise failures.pop()

    await daemon._keep(run)
    assert failures == []


async def test_another_error_is_not_hidden_by_it(daemon: Daemon) -> None:
    async def run() -> None:
        raise ExceptionGroup("", [BUSY, KeyError("a bug")])

    with pytest.raises(ExceptionGroup) as caught:
        await daemon._keep(run)
    assert caught.value.subgroup(KeyError) is not None
