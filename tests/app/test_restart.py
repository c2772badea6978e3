"""A restart with an inherited socket loses and refuses no webhook."""

from __future__ import annotations

import asyncio

import pytest

from scenes.service_manager import handing, kept_socket
from scenes.silent_platform import STORE_ID, office_with_known_store, supervised
from scenes.stored import bodies
from scenes.waiting import until
from scenes.webhook_load import Load

pytestmark = pytest.mark.usefixtures("engine")

STARTS = 4


async def test_restarts_under_load_lose_and_refuse_nothing() -> None:
    async with office_with_known_store() as office:
        with kept_socket() as kept:
            port = kept.getsockname()[1]
            load = Load(port, office.webhook_secret, STORE_ID)
            async with asyncio.TaskGroup() as group:
                group.create_task(load.run())
                for start in range(1, STARTS + 1):
                    wanted = load.answered() + 50
                    async with supervised(office, handing(kept)) as daemon:
                        assert daemon.public_url.endswith(f":{port}")
                        await until(
                            lambda: load.has_more_than(wanted),  # noqa: B023 - awaited at once
                            "it receives",
                        )
                        if start == STARTS:
                            load.going = False
                            await until(load.is_answered, "all have an answer")
        answers = [task.result() for task in load.sent]
        assert [status for status, _ in answers if status != 200] == []
        assert {body for _, body in answers} == set(bodies(office.place))
