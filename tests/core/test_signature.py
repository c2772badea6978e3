"""The webhook signature against known vectors, every flipped bit, and garbage."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.webhook import sign, verify

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = b'{"id":"evt_1","topic":"orders/create","data":{"total":"1499.00"}}'
SECRET = b"whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
OTHER = b"whsec_b3RoZXI="

VECTORS = {
    # RFC 4231, test cases 1, 2 and 6; the hex is the RFC's.
    "rfc4231-1": (
        b"\x0b" * 20,
        b"Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    ),
    "rfc4231-2": (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    "rfc4231-6-long-key": (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_the_rfc(name: str) -> None:
    key, body, digest = VECTORS[name]
    assert sign(body, key) == base64.b64encode(bytes.fromhex(digest))


def test_value_that_openssl_gives() -> None:
    """Printf 'The quick brown fox' | openssl dgst -sha256 -hmac whsec_abc | base64."""
    value = b"nTMIgRwB9LxgQHEJgtahP+JEaOQ1vVxidEc+ppp8/mM="
    assert sign(b"The quick brown fox", b"whsec_abc") == value


@given(body=st.binary(max_size=200), secret=st.binary(min_size=1, max_size=80))
def test_sign_is_hmac_over_the_raw_bytes(body: bytes, secret: bytes) -> None:
    digest = hmac.new(secret, body, hashlib.sha256).digest()
    assert sign(body, secret) == base64.b64encode(digest)
    assert verify(body, sign(body, secret).decode(), [secret]) == 0


def test_every_flipped_bit_of_the_body_is_seen() -> None:
    presented = sign(BODY, SECRET).decode()
    for bit in range(len(BODY) * 8):
        forged = bytearray(BODY)
        forged[bit // 8] ^= 1 << bit % 8
        assert verify(bytes(forged), presented, [SECRET]) is None, bit


def test_every_flipped_bit_of_the_signature_is_seen() -> None:
    presented = sign(BODY, SECRET)
    for bit in range(len(presented) * 8):
        forged = bytearray(presented)
        forged[bit // 8] ^= 1 << bit % 8
        assert verify(BODY, forged.decode("latin-1"), [SECRET]) is None, bit


def test_every_flipped_bit_of_the_secret_is_seen() -> None:
    presented = sign(BODY, SECRET).decode()
    for bit in range(len(SECRET) * 8):
        wrong = bytearray(SECRET)
        wrong[bit // 8] ^= 1 << bit % 8
        assert verify(BODY, presented, [bytes(wrong)]) is None, bit


GARBAGE = {
    "empty": "",
    "blank": " ",
    "text": "garbage",
    "not-ascii": "Ünïcödé" * 6,
    "header-bytes": "\udcff\udc80" * 22,
    "lone-surrogate": "\ud800" * 44,
    "null": "\0" * 44,
    "long": "A" * 100_000,
    "base64-of-zeros": base64.b64encode(bytes(32)).decode(),
    "hexadecimal": hmac.new(SECRET, BODY, hashlib.sha256).hexdigest(),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_a_wrong_signature_and_no_error(name: str) -> None:
    assert verify(BODY, GARBAGE[name], [SECRET, OTHER]) is None


SPELLINGS: dict[str, Callable[[str], str]] = {
    "no-padding": lambda good: good.rstrip("="),
    "blank-before": lambda good: f" {good}",
    "line-break": lambda good: f"{good}\n",
    "twice": lambda good: f"{good}{good}",
    "two-headers": lambda good: f"{good}, {good}",
    "with-prefix": lambda good: f"sha256={good}",
    "lower-case": lambda good: good.lower(),
    "url-safe": lambda good: good.replace("/", "_").replace("+", "-"),
    "cut": lambda good: good[:-1],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_only_the_exact_value_counts(name: str) -> None:
    body = next(
        text
        for text in (b"%d" % number for number in range(10_000))
        if {"+", "/"} <= set(sign(text, SECRET).decode())
    )
    good = sign(body, SECRET).decode()
    assert verify(body, good, [SECRET]) == 0
    assert verify(body, SPELLINGS[name](good), [SECRET]) is None


@given(presented=st.text(st.characters(), max_size=60))
def test_any_text_can_be_presented(presented: str) -> None:
    assert verify(BODY, presented, [SECRET]) is None


def test_each_live_secret_is_distinguished() -> None:
    secrets = [SECRET, OTHER, b"third"]
    for index, secret in enumerate(secrets):
        assert verify(BODY, sign(BODY, secret).decode(), secrets) == index
    assert verify(BODY, sign(BODY, b"retired").decode(), secrets) is None


def test_no_secret_verifies_nothing() -> None:
    assert verify(BODY, sign(BODY, b"").decode(), []) is None


def test_key_is_the_whole_secret_as_it_is_shown() -> None:
    decoded = base64.b64decode(SECRET.removeprefix(b"whsec_"))
    assert verify(BODY, sign(BODY, decoded).decode(), [SECRET]) is None
    bare = SECRET.removeprefix(b"whsec_")
    assert verify(BODY, sign(BODY, bare).decode(), [SECRET]) is None
