"""Mails on standard output: their text, without what lets its reader act as a buyer."""

import asyncio
import email.policy
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage

from backhaul_reference.mail.sinks import Outcome, Post

STANDARD_OUTPUT = 1
REDACTED = "(redacted)"


@dataclass(frozen=True, slots=True)
class NoTokens:
    """Stands in for the tokens of orders: what is printed may end up in a log."""

    def token(self, order_id: str) -> str:
        return REDACTED


@dataclass(frozen=True, slots=True)
class PrintingSink:
    """Prints mails; the lines of each stand under one that says whose it is."""

    descriptor: int = STANDARD_OUTPUT

    async def send(self, posts: Sequence[Post]) -> list[Outcome]:
        return await asyncio.to_thread(self._print_all, posts)

    def _print_all(self, posts: Sequence[Post]) -> list[Outcome]:
        return [self._print(post) for post in posts]

    def _print(self, post: Post) -> Outcome:
        try:
            with open(self.descriptor, "wb", closefd=False) as output:
                output.write(shown(post).encode())
        except OSError as error:
            return Outcome(type(error).__name__)
        return Outcome()


def shown(post: Post) -> str:
    message = message_from_bytes(post.message, policy=email.policy.default)
    assert isinstance(message, EmailMessage)  # noqa: S101  - that policy makes no other
    body = message.get_body(("plain",))
    lines = [f"Subject: {message['Subject']}", ""]
    lines += body.get_content().splitlines() if body is not None else []
    told = "".join(f"  {_harmless(line)}".rstrip() + "\n" for line in lines)
    return f"mail {post.mail_id} to {post.recipient}\n{told}"


def _harmless(line: str) -> str:
    # Buyers name themselves, and terminals obey control characters.
    return line if line.isprintable() else line.encode("unicode_escape").decode()
