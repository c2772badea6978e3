"""How one object is read from a response."""

from __future__ import annotations

import pytest

from backhaul.platform import responses
from backhaul.platform.responses import Response

HALF = rb'{"id":"ord_1", "note":"tea \ud83d"}'
WHOLE = rb'{"id":"ord_1", "note":"tea \ufffd"}'


@pytest.mark.parametrize("form", [b"%b", b'{"data": %b}'])
def test_an_object_with_half_an_emoji_is_read(form: bytes) -> None:
    """As in a list: what stores cut off in a text must not hide the object."""
    assert responses.read_object(Response(200, {}, form % HALF), "ord_1") == WHOLE
    assert responses.rows(Response(200, {}, form % (b"[%b]" % HALF))) == [WHOLE]
