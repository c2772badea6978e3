"""One message to a person: what began, what is over, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.store.alerting import News


@dataclass(frozen=True, slots=True)
class Message:
    """A subject of one line, and the text; `at` is in UTC."""

    id: str
    at: str
    subject: str
    text: str
    news: News


def compose(news: News, host: str, at: str, id_: str) -> Message:
    """Write the message; what began comes first."""
    lines = [f"- {one.says}\n  mend: {one.mend}" for one in news.begun]
    if news.over:
        lines += ["", "Over:"] if lines else []
        lines += [f"- {one.says}" for one in news.over]
    text = "\n".join([*lines, "", f"Backhaul on {host}, {at}", ""])
    return Message(id_, at, f"[backhaul] {_subject(news)}", text, news)


def _subject(news: News) -> str:
    first, what = (news.begun, "") if news.begun else (news.over, "over: ")
    more = len(news.begun) + len(news.over) - 1
    told = " ".join(f"{what}{first[0].says}".split())[:120]
    return f"{told} (and {more} more)" if more else told
