"""A webhook that is answered 200 is on the disk, byte for byte."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from backhaul.core import webhook
from backhaul.store.filters import Filter
from scenes.databases import count, event_states, fold_all, locked
from scenes.payloads import OLD_SECRET, SECRET, envelope, order, signed
from scenes.receiver import Reply, raw_request, status_of
from scenes.requirements import require
from scenes.stored import bodies, lists, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store import Store
    from scenes.receiver import Served

BODY = envelope("orders/create", order())


async def test_the_row_is_in_the_file_before_the_answer_begins(
    receiver: Served, store: Store
) -> None:
    reader, writer = await receiver.connect()
    with locked(store.place) as lock:
        writer.write(raw_request(BODY, signed(BODY).items()))
        await writer.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        assert count(store.place, "inbox") == 0
        lock.execute("COMMIT")
        assert await reader.readexactly(12) == b"HTTP/1.1 200"
        assert bodies(store.place) == [BODY]
        lock.execute("BEGIN")
    writer.close()


async def test_each_of_many_at_once_is_kept(receiver: Served, store: Store) -> None:
    sent = [envelope("orders/create", order(f"ord_{n}")) for n in range(200)]
    replies = await asyncio.gather(*(receiver.post(body) for body in sent))
    assert {reply.status for reply in replies} == {200}
    kept = bodies(store.place)
    assert sorted(kept) == sorted(sent)
    assert receiver.woken == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"topic":"orders/create","data":{"n":1.10,  "x":"\\u00e9"}}\n',
        json.dumps({"data": "é" * 500}, ensure_ascii=False).encode("utf-16"),
        b"\x00\xff\xfe not json at all",
        b"[]",
        b"",
    ],
    ids=["spaces", "utf-16", "binary", "list", "empty"],
)
async def test_the_bytes_are_kept_as_they_came(
    body: bytes, receiver: Served, store: Store
) -> None:
    assert (await receiver.post(body)).status == 200
    assert bodies(store.place) == [body]


async def test_a_body_in_many_small_chunks_is_one_event(
    receiver: Served, store: Store
) -> None:
    headers = [*signed(BODY).items(), ("Transfer-Encoding", "chunked")]
    head = raw_request(b"", headers).replace(b"Content-Length: 0\r\n", b"")
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    assert status_of(await receiver.raw(head + chunks)) == 200
    assert bodies(store.place) == [BODY]


@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET], ids=["new", "old"])
async def test_both_secrets_hold_while_one_replaces_the_other(
    secret: bytes, receiver: Served, store: Store
) -> None:
    assert (await receiver.post(BODY, signed(BODY, secret))).status == 200
    assert count(store.place, "inbox") == 1


def test_the_signature_is_what_openssl_computes(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(BODY)
    key = SECRET.decode()
    digest = subprocess.run(
        [require("openssl"), "dgst", "-sha256", "-hmac", key, "-binary", str(file)],
        capture_output=True,
        check=True,
    ).stdout
    encoded = subprocess.run(
        [require("openssl"), "base64", "-A"],
        input=digest,
        capture_output=True,
        check=True,
    ).stdout
    assert webhook.sign(BODY, SECRET) == encoded


TOPICS = [
    (envelope("orders/create", order()), "products/update", "", "orders/create"),
    (json.dumps(order()).encode(), "orders/updated", "", "orders/updated"),
    (json.dumps(order()).encode(), "", "/orders/cancelled", "orders/cancelled"),
    (json.dumps(order()).encode(), "orders/updated", "/orders/x", "orders/updated"),
]


@pytest.mark.parametrize(("body", "header", "path", "topic"), TOPICS)
async def test_the_topic_is_the_envelopes_else_the_headers_else_the_paths(
    body: bytes,
    header: str,
    path: str,
    topic: str,
    receiver: Served,
    store: Store,
) -> None:
    headers = signed(body) | ({"X-Service-Topic": header} if header else {})
    reply = await receiver.post(body, headers, f"/webhooks/main{path}")
    assert reply.status == 200
    await fold_all(store)
    assert rows_of(store.place, "events", "topic", "state") == [(topic, "folded")]


async def test_an_unknown_topic_is_kept_as_unhandled(
    receiver: Served, store: Store
) -> None:
    assert (await receiver.post(envelope("orders/exploded", order()))).status == 200
    ((_, folded),) = await fold_all(store)
    assert event_states(store.place) == ["unhandled"]
    assert (folded.detail or "").startswith("unknown topic 'orders/exploded'; order")


async def test_topics_of_our_own_reads_are_refused_from_outside(
    receiver: Served, store: Store
) -> None:
    assert (await receiver.post(envelope("orders/read", order()))).status == 200
    await fold_all(store)
    assert event_states(store.place) == ["unhandled"]
    assert count(store.place, "orders") == 0


async def test_signed_garbage_is_answered_200_and_quarantined(
    receiver: Served, store: Store
) -> None:
    assert (await receiver.post(b"<html>")).status == 200
    await fold_all(store)
    assert event_states(store.place) == ["quarantined"]
    ((raw, reason),) = rows_of(store.place, "quarantine", "raw", "reason")
    assert raw == b"<html>"
    assert "not JSON" in reason


async def test_headers_that_could_hold_a_secret_are_not_kept(
    receiver: Served, store: Store
) -> None:
    headers = signed(BODY, Authorization="Bearer canary", Cookie="canary")
    headers |= {"X-Api-Key": "canary", "X-Service-Attempt": "3"}
    assert (await receiver.post(BODY, headers)).status == 200
    with lists(store.place) as reader:
        (event,) = (reader.event(listed.id) for listed in reader.events(Filter(), 9))
    assert event is not None
    kept = event.headers
    assert b"canary" not in kept
    assert json.loads(kept)["X-Service-Attempt"] == "3"


@pytest.mark.parametrize("name", ["User-Agent", "X-Service-Topic", "X-Service-Store"])
async def test_a_header_that_is_no_text_does_no_harm(
    name: str, receiver: Served, store: Store
) -> None:
    headers = [*signed(BODY).items(), (name, "caf\xe9\xff")]
    assert status_of(await receiver.raw(raw_request(BODY, headers))) == 200
    assert (await receiver.post(BODY)).status == 200
    assert count(store.place, "inbox") == 2


@pytest.mark.parametrize("path", ["/orders/%ff%fe", "/orders/%00", "/%ed%a0%80/x"])
async def test_a_path_that_is_no_text_does_no_harm(
    path: str, receiver: Served, store: Store
) -> None:
    reply: Reply = await receiver.post(BODY, path=f"/webhooks/main{path}")
    assert reply.status in {200, 400}
    assert (await receiver.post(BODY)).status == 200
    assert count(store.place, "inbox") >= 1
