"""API keys: shown once, stored as a hash, expired in time, with a time of last use."""

import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from typing import Any

import pytest

from backhaul_reference.platform import formats
from scenes.reference_shop import Shop
from scenes.waiting import until

KEYS = "/stores/demo/keys"
HOUR_MS = 3_600_000


def ahead(shop: Shop, milliseconds: int) -> str:
    return formats.to_text(shop.running.platform.clock.now_ms() + milliseconds)


def kept(shop: Shop, key_id: str) -> dict[str, Any]:
    with closing(sqlite3.connect(shop.running.platform.database)) as connection:
        connection.row_factory = sqlite3.Row
        query = "SELECT * FROM api_key WHERE id = ?"
        return dict(connection.execute(query, (key_id,)).fetchone())


async def status(shop: Shop, key: str) -> tuple[int, str | None]:
    reply = await shop.v1("GET", "/store", key=key)
    return reply.status, reply.code if reply.status != 200 else None


async def test_a_key_is_random_and_only_its_hash_is_kept(shop: Shop) -> None:
    made = [(await shop.control("POST", KEYS)).data for _ in range(5)]
    texts = [one["key"] for one in made]
    assert len({*texts}) == 5
    assert all(re.fullmatch(r"svc_live_[0-9A-Za-z]{40}", text) for text in texts)
    row = kept(shop, made[0]["id"])
    assert row["hash"] == sha256(texts[0].encode()).hexdigest()
    files = shop.running.platform.database.parent.glob("*.db*")
    assert not any(texts[0].encode() in file.read_bytes() for file in files)


async def test_a_key_works_until_its_end_and_no_longer(shop: Shop) -> None:
    made = (await shop.control("POST", KEYS, {"expiresAt": ahead(shop, HOUR_MS)})).data
    lasting = (await shop.control("POST", KEYS)).data
    assert lasting["expiresAt"] is None
    assert await status(shop, made["key"]) == (200, None)
    await shop.control("POST", "/clock", {"advance": 3_601})
    assert await status(shop, made["key"]) == (401, "API_KEY_INVALID")
    assert await status(shop, lasting["key"]) == (200, None)


@pytest.mark.parametrize(("later", "told"), [(-1_000, "OUT_OF_RANGE"), (None, "BAD")])
async def test_an_end_that_cannot_be_makes_no_key(
    shop: Shop, later: int | None, told: str
) -> None:
    ends = "soon" if later is None else ahead(shop, later)
    reply = await shop.control("POST", KEYS, {"expiresAt": ends})
    assert reply.status == 422
    (flaw,) = reply.body["errors"]
    assert (flaw["pointer"], flaw["code"][: len(told)]) == ("/expiresAt", told)


async def test_a_key_says_when_it_was_last_used_to_the_minute(shop: Shop) -> None:
    made = (await shop.control("POST", KEYS)).data
    assert kept(shop, made["id"])["used_ms"] is None
    before = shop.running.platform.clock.now_ms()
    await status(shop, made["key"])
    first = await until(lambda: kept(shop, made["id"])["used_ms"], "it is written")
    assert 0 <= first - before < HOUR_MS
    await shop.control("POST", "/clock", {"advance": 3_600})
    await status(shop, made["key"])
    await until(lambda: kept(shop, made["id"])["used_ms"] > first, "and again")
