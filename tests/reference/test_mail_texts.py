"""Mails are composed so that a mail program reads the original text."""

from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest

from backhaul_reference.mail.outbox_worker import compose
from backhaul_reference.mail.texts import MailText

SENDER, MAIL_ID, AT_MS = "shop@x.example", "mail_1", 1_700_000_000_123
TEXTS = (
    "plain words",
    "a = b, 100 % = all",
    "ब्लू मग — 3.º “Esq.”",
    "x" * 3000,
    "é" * 3000,
    "one\r\ntwo\rthree\n\nfour",
    "ends with a blank \nand a tab\t\n.\n..\n",
    "From me\n--=_mail_2\n--",
)


def read(letter: MailText) -> EmailMessage:
    raw = compose(letter, SENDER, MAIL_ID, AT_MS)
    assert max(map(len, raw.split(b"\n"))) <= 998
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    assert message.defects == []
    return message


def text_of(message: EmailMessage, kind: str) -> str:
    body = message.get_body((kind,))
    assert isinstance(body, EmailMessage)
    assert body.defects == []
    return str(body.get_content())


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_arrives_as_it_was_written(text: str) -> None:
    message = read(MailText(to="a@x.example", subject="Order", opening=[text]))
    written = text.replace("\r\n", "\n").replace("\r", "\n")
    assert text_of(message, "plain").rstrip("\n") == written.rstrip("\n")
    assert written.rstrip("\n").replace("&", "&amp;") in (
        text_of(message, "html").replace("&#x27;", "'")
    )


@pytest.mark.parametrize("subject", ["New order #1", "Új rendelés: ₹ 1.499", "ü" * 300])
def test_a_subject_arrives_as_it_was_written(subject: str) -> None:
    message = read(MailText(to="a@x.example", subject=subject, opening=[]))
    assert message["Subject"] == subject


def test_headers_name_sender_recipient_and_time() -> None:
    message = read(MailText(to="a@x.example", subject="S", opening=[]))
    assert (message["From"], message["To"]) == (SENDER, "a@x.example")
    assert message["Date"].datetime.timestamp() == AT_MS // 1000
    assert message["Message-ID"] == "<mail_1@x.example>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "multipart/alternative"
