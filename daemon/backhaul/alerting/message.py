"""One message to a person: what began, what is over, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul.store.alerting import Alert, News

LISTED = 5
"""Causes of one kind that are named one by one; of more, their number is told."""
_WHERE = {
    "parked": "backhaul commands list --state parked",
    "news": "backhaul connectors deliveries --state parked",
}
"""What lists the causes of a kind."""


class Message(Struct, frozen=True):
    """A subject of one line, and the text; `at` is in UTC."""

    id: str
    at: str
    subject: str
    text: str
    news: News


def compose(news: News, host: str, at: str) -> Message:
    """Write the message; what began comes first."""
    lines = [line for says, mend in _listed(news.begun) for line in (says, mend)]
    if news.over:
        lines += ["", "Over:"] if lines else []
        lines += [says for says, _ in _listed(news.over)]
    text = "\n".join([*lines, "", f"Backhaul on {host}, {at}", ""])
    return Message(news.id, at, f"[backhaul] {_subject(news)}", text, news)


def _listed(alerts: Sequence[Alert]) -> Iterator[tuple[str, str]]:
    """Yield what is said of each, and how to mend it, kind by kind."""
    kinds: dict[str, list[Alert]] = {}
    for one in alerts:
        kinds.setdefault(one.key.partition(" ")[0], []).append(one)
    for kind, those in kinds.items():
        for one in those[:LISTED]:
            yield f"- {one.says}", f"  mend: {one.mend}"
        if (more := len(those) - LISTED) > 0:
            where = _WHERE.get(kind, "backhaul status")
            yield f"- and {more} more ({kind})", f"  mend: {where}"


def _subject(news: News) -> str:
    first, what = (news.begun, "") if news.begun else (news.over, "over: ")
    more = len(news.begun) + len(news.over) - 1
    told = " ".join(f"{what}{first[0].says}".split())[:120]
    return f"{told} (and {more} more)" if more else told
