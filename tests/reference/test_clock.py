"""The virtual clock: its time, its sleepers, and what follows it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backhaul_reference.platform.clock import SystemClock, VirtualClock
from scenes.reference_shop import Receiver, Shop, open_shop, subscribe


async def move(shop: Shop, **body: Any) -> Any:
    return (await shop.control("POST", "/clock", body)).data


class Still:
    """A clock that a test moves by hand; its sleepers never wake by themselves."""

    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


async def test_sleepers_wake_when_their_time_has_come() -> None:
    clock = VirtualClock(Still())
    sleeper = asyncio.create_task(clock.sleep(60))
    await asyncio.sleep(0)
    for seconds in (20, 20):
        clock.advance(seconds)
        await asyncio.sleep(0)
        assert not sleeper.done()
    clock.advance(20)
    await sleeper
    await clock.sleep(0)


async def test_frozen_time_stands_still_and_continues_from_there() -> None:
    inner = Still()
    clock = VirtualClock(inner)
    clock.freeze()
    inner.ms += 5_000
    assert (clock.now_ms(), clock.monotonic()) == (1_000_000, 1_000)
    clock.advance(2)
    clock.freeze()
    clock.unfreeze()
    clock.unfreeze()
    assert (clock.now_ms(), clock.monotonic()) == (1_002_000, 1_002)
    inner.ms += 1_000
    assert clock.now_ms() == 1_003_000


async def test_by_itself_it_is_real_time() -> None:
    clock, real = VirtualClock(SystemClock()), SystemClock()
    assert 0 <= real.now_ms() - clock.now_ms() < 1000
    await clock.sleep(0.001)


async def test_timestamps_follow(shop: Shop) -> None:
    first = await move(shop, freeze=True)
    product = await shop.product()
    assert product["createdAt"] >= first["now"]
    ahead = await move(shop, advance=3600.5)
    assert (ahead["frozen"], ahead["aheadSeconds"]) == (True, 3600.5)
    later = await shop.product()
    assert later["createdAt"] == ahead["now"]
    again = await shop.product()
    assert again["createdAt"] > later["createdAt"]
    assert (await shop.control("GET", "/clock")).data == ahead
    assert (await move(shop, freeze=False))["frozen"] is False


async def test_retries_follow(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers += [web.Response(status=500) for _ in range(2)]
    async with open_shop(tmp_path, delays=(0.0, 300.0, 18_000.0)) as shop:
        webhook = await subscribe(shop, receiver, "products/create")
        await shop.product()
        path = f"/webhooks/{webhook['id']}/deliveries"
        for count, seconds in ((1, 330), (2, 19_800)):
            await receiver.until(count)
            while len((await shop.v1("GET", path)).data[0]["attempts"]) < count:
                pass
            await move(shop, advance=seconds)
        assert len(await receiver.until(3)) == 3


async def test_limits_follow(tmp_path: Path) -> None:
    async with open_shop(tmp_path, limits=True) as shop:
        await move(shop, freeze=True)
        replies = [await shop.v1("GET", "/store") for _ in range(41)]
        assert [one.status for one in replies] == [200] * 40 + [429]
        assert replies[-1].headers["Retry-After"] == "1"
        await move(shop, advance=1)
        replies = [await shop.v1("GET", "/store") for _ in range(5)]
        assert [one.status for one in replies] == [200] * 4 + [429]


async def test_idempotency_keys_follow(shop: Shop) -> None:
    product = await shop.product(stock=5)
    body = {"productId": product["id"], "adjustment": -1}
    key = {"Idempotency-Key": "k"}
    for seconds, stock in ((0, 4), (24 * 3600 - 60, 4), (61, 3)):
        await move(shop, advance=seconds)
        await shop.v1("POST", "/inventory/adjust", body, headers=key)
        assert (await shop.state())["levels"][0]["stock"] == stock


@pytest.mark.parametrize(
    "body", [{"advance": -1}, {"advance": "1"}, {"back": 1}, {"freeze": 1}]
)
async def test_an_invalid_clock_change_is_refused(shop: Shop, body: Any) -> None:
    assert (await shop.control("POST", "/clock", body)).status == 422


async def test_time_has_an_end(shop: Shop) -> None:
    decade = {"advance": 3_600 * 24 * 366 * 10}
    replies = [await shop.control("POST", "/clock", decade) for _ in range(850)]
    assert replies[-1].status == 422
    assert (await shop.product())["createdAt"] < "9999-12-31"


async def test_the_clock_needs_the_token(shop: Shop) -> None:
    url = shop.running.access.control_url + "/_control/clock"
    assert (await shop.ask("POST", url, {}, json={"advance": 1})).status == 401
