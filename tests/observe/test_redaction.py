"""Secrets are redacted in every spelling."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from backhaul.observe.redaction import SHORTEST, Redactor

LIVE_KEY = "svc_live_" + "Aa1" * 8
HOOK = "whsec_" + "Zm9v" * 6 + "=="
ODD = 'p"ä\\ss/w&rd'


class Unprintable:
    """Something whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {LIVE_KEY}.", "key [redacted]."),
        (f"hook {HOOK}", "hook [redacted]"),
        ("Authorization: Bearer a.b-c", "Authorization: [redacted]"),
        ("authorization: bearer a.b-c now", "authorization: [redacted] now"),
        ("svc_live_short", "svc_live_short"),
        ("whsec_short", "whsec_short"),
        ("a bearer of news", "a [redacted] news"),
        ("nothing", "nothing"),
    ],
)
def test_text_that_looks_like_a_secret_is_replaced(text: str, shown: str) -> None:
    assert Redactor()(text) == shown


@pytest.mark.parametrize(
    "spelling",
    [
        ODD,
        json.dumps(ODD),
        json.dumps(ODD, ensure_ascii=False),
        repr(ODD),
        quote(ODD),
        quote(ODD, safe=""),
    ],
)
def test_a_known_secret_is_replaced_in_each_spelling(spelling: str) -> None:
    shown = Redactor([ODD])(f"<{spelling}>")
    assert shown.replace('"', "").replace("'", "") == "<[redacted]>"


@given(st.text(min_size=SHORTEST), st.text(max_size=20), st.text(max_size=20))
def test_no_known_secret_is_left(secret: str, before: str, after: str) -> None:
    shown = Redactor([secret])(f"{before}{secret}{after}")
    assert secret in "[redacted]" or "[redacted]" in shown


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert Redactor(["canary", "canary-long"])("canary-long") == "[redacted]"


def test_secrets_that_turn_up_later_are_added() -> None:
    redactor = Redactor(["first"])
    redactor.add(["second"])
    assert redactor("first second third") == "[redacted] [redacted] third"


def test_very_short_secrets_are_left_alone() -> None:
    assert Redactor(["a", ""])("a banana") == "a banana"


def test_values_become_plain() -> None:
    value = {
        "number": 1,
        "secret number": 123456,
        "truth": True,
        "share": 0.5,
        "none": None,
        "concealed": SecretStr("canary"),
        "bytes": b"canary \xff",
        "canary": ("canary", {"canary"}, ["x", {"y": "canary"}]),
        "unprintable": Unprintable(),
    }
    assert Redactor(["canary", "123456"]).plain(value) == {
        "number": 1,
        "secret number": "[redacted]",
        "truth": True,
        "share": 0.5,
        "none": None,
        "concealed": "**********",
        "bytes": "[redacted] \\xff",
        "[redacted]": ["[redacted]", ["[redacted]"], ["x", {"y": "[redacted]"}]],
        "unprintable": "<Unprintable>",
    }
