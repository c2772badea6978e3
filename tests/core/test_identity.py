"""The identity of a command depends on its cause, and on nothing else."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.identity import command_id, fingerprint, idempotency_key, tag

# Constants: an identity that changed with a release would send commands twice.
KNOWN = command_id("main", "courier", "BD1", "fulfill")


def test_identity_never_changes_between_releases() -> None:
    assert KNOWN == "cfae225473b67887b9f50b61448caefc"
    assert tag(KNOWN) == f"bh:{KNOWN}"
    assert idempotency_key(KNOWN) == f"backhaul-{KNOWN}"


# Texts of few letters, digits and colons, which could be ambiguous when joined.
PART = st.text("1:a", max_size=6)
CAUSE = st.tuples(PART, PART, PART, PART)


@given(one=CAUSE, two=CAUSE)
def test_no_two_causes_run_into_one(
    one: tuple[str, str, str, str], two: tuple[str, str, str, str]
) -> None:
    assert (command_id(*one) == command_id(*two)) == (one == two)


@given(st.lists(st.text(max_size=9), min_size=4, max_size=4))
def test_identity_can_be_sent_in_any_header(parts: list[str]) -> None:
    identity = command_id(*parts)
    assert re.fullmatch(r"[0-9a-f]{32}", identity)
    assert len(idempotency_key(identity)) <= 255


def test_parts_may_hold_anything() -> None:
    parts = ["", "ünï", "\x00", "\U0001f600", "a\nb"]
    found = {command_id("s", "i", key, "adjust") for key in parts}
    assert len(found) == len(parts)


def test_a_fingerprint_distinguishes_keys_and_reveals_none() -> None:
    key = "svc_live_0123456789"
    assert fingerprint(key) == fingerprint(key)
    assert fingerprint(key) != fingerprint(key + "0")
    assert not set(fingerprint(key)) - set("0123456789abcdef")
    assert len(fingerprint(key)) == 12
