"""Builds the MIME message of a mail: plain text and simple HTML."""

import re
from binascii import b2a_qp
from email.header import Header
from email.utils import formataddr, formatdate
from html import escape

from backhaul_reference.mail.texts import MailText

HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36em; margin: 2em auto">
{}
</body></html>
"""
MAILABLE = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
LONGEST_LINE = 900
LINE_ENDS = re.compile(r"\r\n?")


class UnsendableError(Exception):
    """The recipient is not an address that mail can be sent to."""


def compose(text: MailText, sender: str, mail_id: str, at_ms: int) -> bytes:
    """Return the message by RFC 5322 and RFC 2046, with LF line ends."""
    # Not the standard library's classes, which are thirty times slower.
    boundary = f"=_{mail_id}"
    headers = (
        ("From", _named(text.sender, sender)),
        ("To", _address(text.to)),
        ("Subject", _words(text.subject)),
        ("Date", formatdate(at_ms / 1000)),
        ("Message-ID", f"<{mail_id}@{sender.rpartition('@')[2]}>"),
        ("Auto-Submitted", "auto-generated"),
        ("MIME-Version", "1.0"),
        ("Content-Type", f'multipart/alternative; boundary="{boundary}"'),
    )
    head = "".join(f"{name}: {value}\n" for name, value in headers)
    cut = f"\n--{boundary}\n".encode()
    parts = (_part(_text(text), "plain"), _part(_html(text), "html"))
    whole = cut.join((head.encode("ascii"), *parts))
    return whole + f"\n--{boundary}--\n".encode()


def _address(text: str) -> str:
    if not MAILABLE.fullmatch(text):
        raise UnsendableError("the address cannot be mailed to")
    return text


def _named(name: str, address: str) -> str:
    words = _words(name)
    if words == " ".join(name.split()):
        return formataddr((words, address))
    return f"{words} <{address}>"


def _words(text: str) -> str:
    line = " ".join(text.split())
    plain = line.isascii() and line.isprintable()
    return line if plain else Header(line, "utf-8").encode()


def _part(text: str, subtype: str) -> bytes:
    body = LINE_ENDS.sub("\n", text)
    short = all(len(line) <= LONGEST_LINE for line in body.split("\n"))
    if body.isascii() and short:
        return _head_of_part(subtype, "us-ascii", "7bit") + body.encode()
    readable = b2a_qp(body.encode(), istext=True)
    return _head_of_part(subtype, "utf-8", "quoted-printable") + readable


def _head_of_part(subtype: str, charset: str, encoding: str) -> bytes:
    return (
        f'Content-Type: text/{subtype}; charset="{charset}"\n'
        f"Content-Transfer-Encoding: {encoding}\n\n"
    ).encode()


def _text(text: MailText) -> str:
    width = max((len(name) for name, _ in text.rows), default=0)
    table = "\n".join(f"  {name:<{width}}  {value}" for name, value in text.rows)
    link = [f"{text.link[0]}: {text.link[1]}"] if text.link else []
    parts = [*text.opening, *([table] if table else []), *text.closing, *link]
    return "\n\n".join(parts) + "\n"


def _html(text: MailText) -> str:
    parts = [f"<p>{escape(line)}</p>" for line in text.opening]
    if text.rows:
        rows = (
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, value in text.rows
        )
        parts.append(f'<table cellpadding="4">{"".join(rows)}</table>')
    parts += [f"<p>{escape(line)}</p>" for line in text.closing]
    if text.link:
        words, url = text.link
        parts.append(f'<p><a href="{escape(url)}">{escape(words)}</a></p>')
    return HTML.format("\n".join(parts))
