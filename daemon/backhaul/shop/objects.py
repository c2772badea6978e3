"""One object, or the rows that belong to it, as an answer holds them: exact bytes.

But for half an emoji, for which U+FFFD stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backhaul.core import strict_json
from backhaul.errors import Unusable

if TYPE_CHECKING:
    from backhaul.shop.transport import Answer


class _Named(msgspec.Struct):
    id: str | int


def read(answer: Answer, object_id: str) -> bytes:
    """Return the object's bytes, wrapped in `data` or bare. Raises Unusable.

    An answer about another object is none.
    """
    raw = _inner(answer)
    try:
        found = str(msgspec.json.decode(raw, type=_Named).id)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unusable(f"the answer holds no object: {error}") from None
    if found != object_id:
        raise Unusable(f"asked for {object_id}, the answer is about {found}")
    return raw


def rows(answer: Answer) -> list[bytes]:
    """Return the bytes of each row of a list. Raises Unusable."""
    try:
        found = msgspec.json.decode(_inner(answer), type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise Unusable(f"the answer holds no list: {error}") from None
    return [bytes(row) for row in found]


def _inner(answer: Answer) -> bytes:
    answer.json()  # refuses what is no JSON, or not strictly
    body = strict_json.whole(answer.body)
    try:
        wrapped = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return body
    return bytes(wrapped.get("data", body))
