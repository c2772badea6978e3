"""Builds and reads the messages that Backhaul puts into the mailbox for rejections."""

from __future__ import annotations

import hashlib
import re
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.utils import format_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

FILE_HEADER = "X-Backhaul-File"
"""Names the file that a message contains: a digest, as servers search ASCII."""
REASON_HEADER = "X-Backhaul-Reason"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def digest_of(text: str) -> str:
    """Return what stands for a name in a header."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def reason_message(
    user: str, subject: str, reasons: Sequence[str], key: str, at: datetime
) -> bytes:
    """Return the message that says why another message was rejected."""
    message = _message(user, f"Not imported: {subject}", at)
    message[REASON_HEADER] = key
    message.set_content(
        "Backhaul moved this message here and imported nothing from these attachments."
        " Correct them, and let the sender send them again.\n\n"
        + "\n\n".join(reasons)
        + "\n"
    )
    return message.as_bytes(policy=policy.SMTP)


def file_message(user: str, name: str, content: bytes, at: datetime) -> bytes:
    """Return a message with rows that could not be used."""
    message = _message(user, f"Rows that cannot be used: {name}", at)
    message[FILE_HEADER] = digest_of(name)
    message.set_content(
        "Backhaul could not use the rows in the attachment; each has its reason."
        " Correct the rows, and send them again in a file of another name.\n"
    )
    message.add_attachment(content, "text", "csv", filename=_plain(name))
    return message.as_bytes(policy=policy.SMTP)


def content_of(message: bytes) -> bytes | None:
    """Return the content of the attachment of `file_message`; None without one."""
    found = message_from_bytes(message, policy=policy.SMTP)
    for part in found.walk():
        if part.get_content_disposition() == "attachment":
            return _payload(part)
    return None


def _payload(part: Message) -> bytes | None:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else None


def _message(user: str, subject: str, at: datetime) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Backhaul <backhaul@localhost>"
    if re.fullmatch(r"[^@\s<>]+@[\w.-]+", user, re.ASCII):
        message["To"] = user
    message["Subject"] = _plain(subject)
    message["Date"] = format_datetime(at)
    message["Auto-Submitted"] = "auto-generated"
    return message


def _plain(text: str) -> str:
    """Return text without line ends and lone surrogates, which no header can have."""
    return _CONTROL.sub(" ", text).encode("utf-8", "replace").decode()
