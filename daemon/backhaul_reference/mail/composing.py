"""Composing: a letter as a message with readable text and simple HTML."""

import re
from email.charset import QP, Charset
from email.header import Header
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formataddr, formatdate
from html import escape

from backhaul_reference.mail.letters import Letter

HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36em; margin: 2em auto">
{}
</body></html>
"""
MAILABLE = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
LONGEST_LINE = 900


class UnsendableError(Exception):
    """The recipient is not an address that mail can be sent to."""


def compose(letter: Letter, sender: str, mail_id: str, at_ms: int) -> Message:
    # The older classes: a message takes a sixth of the time of EmailMessage.
    message = MIMEMultipart("alternative")
    message["From"] = _named(letter.sender, sender)
    message["To"] = _address(letter.to)
    message["Subject"] = _words(letter.subject)
    message["Date"] = formatdate(at_ms / 1000)
    message["Message-ID"] = f"<{mail_id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.attach(_part(_text(letter), "plain"))
    message.attach(_part(_html(letter), "html"))
    return message


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


def _part(text: str, subtype: str) -> MIMEText:
    short = all(len(line) <= LONGEST_LINE for line in text.splitlines())
    if text.isascii() and short:
        return MIMEText(text, subtype, "us-ascii")
    readable = Charset("utf-8")
    readable.body_encoding = QP
    part = MIMEText("", subtype)
    del part["Content-Transfer-Encoding"]
    part.set_payload(text, readable)
    return part


def _text(letter: Letter) -> str:
    width = max((len(name) for name, _ in letter.rows), default=0)
    table = "\n".join(f"  {name:<{width}}  {value}" for name, value in letter.rows)
    link = [f"{letter.link[0]}: {letter.link[1]}"] if letter.link else []
    parts = [*letter.opening, *([table] if table else []), *letter.closing, *link]
    return "\n\n".join(parts) + "\n"


def _html(letter: Letter) -> str:
    parts = [f"<p>{escape(line)}</p>" for line in letter.opening]
    if letter.rows:
        rows = (
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, value in letter.rows
        )
        parts.append(f'<table cellpadding="4">{"".join(rows)}</table>')
    parts += [f"<p>{escape(line)}</p>" for line in letter.closing]
    if letter.link:
        words, url = letter.link
        parts.append(f'<p><a href="{escape(url)}">{escape(words)}</a></p>')
    return HTML.format("\n".join(parts))
