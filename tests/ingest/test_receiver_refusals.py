"""A refused webhook is not stored, and its answer does not say why."""

from __future__ import annotations

import asyncio
import base64
import gzip
from typing import TYPE_CHECKING

import pytest

from backhaul.core import webhook
from scenes.databases import count
from scenes.payloads import SECRET, envelope, order, signed
from scenes.receiver import MAX_BODY_BYTES, Served, raw_request, served, status_of
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from backhaul.store import Store

BODY = envelope("orders/create", order())
RIGHT = webhook.sign(BODY, SECRET).decode()
HEADER = webhook.HEADER

FORGED: dict[str, list[tuple[str, str]]] = {
    "none": [],
    "empty": [(HEADER, "")],
    "of another body": [(HEADER, webhook.sign(b"{}", SECRET).decode())],
    "by another secret": [(HEADER, webhook.sign(BODY, b"whsec_other").decode())],
    "by nothing": [(HEADER, webhook.sign(BODY, b"").decode())],
    "right beside wrong": [(HEADER, "AAAA"), (HEADER, RIGHT)],
    "right and wrong in one": [(HEADER, f"{RIGHT},AAAA")],
    "hexadecimal": [(HEADER, base64.b64decode(RIGHT).hex())],
    "prefixed": [(HEADER, f"sha256={RIGHT}")],
    "cut": [(HEADER, RIGHT[:-1])],
    "without padding": [(HEADER, RIGHT.rstrip("="))],
    "lower case": [(HEADER, RIGHT.lower())],
    "not ASCII": [(HEADER, "\xe9\xff\xfe")],
    "long": [(HEADER, "A" * 5_000)],
    "in another header": [("X-Hub-Signature", RIGHT)],
}


EQUAL: dict[str, list[tuple[str, str]]] = {
    "twice": [(HEADER, RIGHT), (HEADER, RIGHT)],
    "in another case": [(HEADER, RIGHT), (HEADER.lower(), RIGHT)],
    "joined": [(HEADER, f"{RIGHT}, {RIGHT}")],
    "joined without blank": [(HEADER, f"{RIGHT},{RIGHT}")],
    "beside an empty one": [(HEADER, ""), (HEADER, RIGHT)],
    "with blanks": [(HEADER, f"  {RIGHT}\t")],
}


@pytest.mark.parametrize("headers", EQUAL.values(), ids=EQUAL.keys())
async def test_the_same_signature_twice_counts_as_one(
    headers: list[tuple[str, str]], receiver: Served, store: Store
) -> None:
    headers = [*headers, ("Connection", "close")]
    assert status_of(await receiver.raw(raw_request(BODY, headers))) == 200
    assert count(store.place, "inbox") == 1


@pytest.mark.parametrize(
    "codings",
    [[""], [" "], ["Identity"], ["identity, IDENTITY"], ["", "identity"], [","]],
    ids=repr,
)
async def test_a_body_without_a_real_coding_is_kept(
    codings: list[str], receiver: Served, store: Store
) -> None:
    headers = [*signed(BODY).items(), ("Connection", "close")]
    headers += [("Content-Encoding", coding) for coding in codings]
    assert status_of(await receiver.raw(raw_request(BODY, headers))) == 200
    assert count(store.place, "inbox") == 1


@pytest.mark.parametrize("headers", FORGED.values(), ids=FORGED.keys())
async def test_a_wrong_signature_is_401_and_leaves_nothing(
    headers: list[tuple[str, str]], receiver: Served, store: Store
) -> None:
    answer = await receiver.raw(raw_request(BODY, headers))
    assert status_of(answer) == 401
    assert count(store.place, "inbox") == 0
    assert receiver.woken == 0


EVIDENCE = {"of another body", "by another secret", "by nothing", "lower case"}
"""Complete signatures that do not match. All others were damaged, lost or added on the
way, so another secret does not help."""


@pytest.mark.parametrize("name", FORGED)
async def test_only_a_whole_signature_that_does_not_match_is_evidence(
    name: str, receiver: Served
) -> None:
    await receiver.raw(raw_request(BODY, FORGED[name]))
    assert (receiver.webhook_secrets.why_kept("main") == "") is (name in EVIDENCE)


async def test_unsigned_requests_hide_no_evidence(
    receiver: Served,
) -> None:
    await receiver.raw(raw_request(BODY, FORGED["by another secret"]))
    for name in ("none", "empty", "cut"):
        await receiver.raw(raw_request(BODY, FORGED[name]))
    assert receiver.webhook_secrets.why_kept("main") == ""
    assert (await receiver.post(BODY)).status == 200
    assert "since the start" in receiver.webhook_secrets.why_kept("main")


async def test_every_refusal_looks_the_same(receiver: Served) -> None:
    answers = {
        without_date(await receiver.raw(raw_request(BODY, headers)))
        for headers in FORGED.values()
    }
    unknown = raw_request(BODY, signed(BODY).items()).replace(b"/main", b"/none")
    answers.add(without_date(await receiver.raw(unknown)))
    assert len(answers) == 1


def without_date(answer: bytes) -> bytes:
    lines = answer.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(b"Date:"))


@pytest.mark.parametrize(
    "path", ["/webhooks/none", "/webhooks/other", "/webhooks/MAIN"]
)
async def test_a_secret_opens_its_own_store_only(
    path: str, receiver: Served, store: Store
) -> None:
    assert (await receiver.post(BODY, path=path)).status == 401
    assert count(store.place, "inbox") == 0


async def test_any_flipped_bit_of_the_body_is_noticed(
    receiver: Served, store: Store
) -> None:
    body = b'{"topic":"x","data":{}}'
    forged = [
        body[:n] + bytes([body[n] ^ 1 << bit]) + body[n + 1 :]
        for n in range(len(body))
        for bit in range(8)
    ]
    replies = await asyncio.gather(*(receiver.post(b, signed(body)) for b in forged))
    assert {reply.status for reply in replies} == {401}
    assert count(store.place, "inbox") == 0


async def test_any_flipped_bit_of_the_signature_is_noticed(
    receiver: Served, store: Store
) -> None:
    flipped = [
        RIGHT[:n] + chr(ord(RIGHT[n]) ^ 1 << bit) + RIGHT[n + 1 :]
        for n in range(len(RIGHT))
        for bit in range(7)
    ]
    usable = [text for text in flipped if text.isprintable() and text == text.strip()]
    replies = await asyncio.gather(
        *(receiver.post(BODY, {HEADER: text}) for text in usable)
    )
    assert {reply.status for reply in replies} == {401}
    assert count(store.place, "inbox") == 0


async def test_the_same_json_written_otherwise_does_not_match(
    receiver: Served, store: Store
) -> None:
    assert (await receiver.post(BODY + b" ", signed(BODY))).status == 401
    assert count(store.place, "inbox") == 0


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "GZIP", "identity, gzip"])
async def test_a_compressed_body_is_415(
    coding: str, receiver: Served, store: Store
) -> None:
    packed = gzip.compress(BODY)
    headers = signed(packed) | {"Content-Encoding": coding}
    assert status_of(await receiver.raw(raw_request(packed, headers.items()))) == 415
    assert count(store.place, "inbox") == 0


async def test_a_bomb_is_not_unpacked(receiver: Served, store: Store) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    headers = signed(bomb) | {"Content-Encoding": "gzip"}
    assert (await receiver.post(bomb, headers)).status == 415
    assert count(store.place, "inbox") == 0


async def test_a_body_as_large_as_allowed_is_kept(
    receiver: Served, store: Store
) -> None:
    assert (await receiver.post(b"x" * MAX_BODY_BYTES)).status == 200
    assert count(store.place, "inbox") == 1


@pytest.mark.parametrize("excess", [1, 500_000])
async def test_a_larger_body_is_413(
    excess: int, receiver: Served, store: Store
) -> None:
    assert (await receiver.post(b"x" * (MAX_BODY_BYTES + excess))).status == 413
    assert count(store.place, "inbox") == 0


async def test_a_larger_body_is_413_even_in_chunks(
    receiver: Served, store: Store
) -> None:
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    head = raw_request(b"", [("Transfer-Encoding", "chunked")])
    head = head.replace(b"Content-Length: 0\r\n", b"")
    reader, writer = await receiver.connect()
    writer.write(head + chunk * 3)
    assert (
        await asyncio.wait_for(reader.readexactly(12), HANG_SECONDS) == b"HTTP/1.1 413"
    )
    writer.close()
    assert count(store.place, "inbox") == 0


@pytest.mark.parametrize(
    "head",
    [("Content-Length", "1000"), ("Transfer-Encoding", "chunked")],
    ids=["length", "chunked"],
)
async def test_a_body_that_never_ends_is_cut_off(
    head: tuple[str, str], store: Store
) -> None:
    async with served(store.inbox, request_seconds=0.2) as receiver:
        reader, writer = await receiver.connect()
        request = raw_request(b"", [head]).replace(b"Content-Length: 0\r\n", b"")
        writer.write(request + b"3\r\nabc\r\n")
        answer = await asyncio.wait_for(reader.readexactly(12), HANG_SECONDS)
        assert answer == b"HTTP/1.1 408"
        assert (await receiver.post(BODY)).status == 200
        writer.close()
    assert count(store.place, "inbox") == 1


@pytest.mark.parametrize(
    "more",
    [
        [(f"X-Much-{number}", "x" * 50) for number in range(200)],
        [("X-Long", "x" * 100_000)],
        [("X-Service-Topic", "orders/create" * 500)],
    ],
    ids=["200 headers", "a long one", "a long topic"],
)
async def test_oversized_headers_are_refused_or_kept_without_harm(
    more: list[tuple[str, str]], receiver: Served, store: Store
) -> None:
    request = raw_request(BODY, [*signed(BODY).items(), *more])
    status = status_of(await receiver.raw(request))
    assert status in {200, 400}
    assert count(store.place, "inbox") == (status == 200)
    assert (await receiver.post(BODY)).status == 200


async def test_a_connection_over_the_limit_is_answered_to_retry(store: Store) -> None:
    async with served(store.inbox, max_connections=3) as receiver:
        idle = [await receiver.connect() for _ in range(3)]
        answer = await receiver.raw(raw_request(BODY, signed(BODY).items()))
        assert status_of(answer) == 503
        assert b"Retry-After: 1" in answer
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()
        assert (await receiver.post(BODY)).status == 200
    assert count(store.place, "inbox") == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_only_post_is_understood(method: str, receiver: Served) -> None:
    request = raw_request(BODY, signed(BODY).items())
    request = request.replace(b"POST", method.encode(), 1)
    assert status_of(await receiver.raw(request)) == 405
