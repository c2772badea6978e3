"""Mails printed to standard output are readable and contain no secret."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backhaul_reference.arguments import parse
from backhaul_reference.mail.outbox_worker import compose
from backhaul_reference.mail.texts import MailText
from backhaul_reference.mail.transports import ComposedMail, StdoutTransport, shown
from scenes.loop_guard import on_purpose
from scenes.reference_process import ReferenceProcess, reference
from scenes.reference_shop import CUSTOMER, cart

if TYPE_CHECKING:
    from pathlib import Path


@on_purpose()
def first_mail(server: ReferenceProcess) -> list[str]:
    """Its lines, up to the head of the next one."""
    assert server.process.stdout is not None
    lines = [server.process.stdout.readline()]
    while not (line := server.process.stdout.readline()).startswith("mail "):
        assert line, "the output ended"
        lines.append(line)
    return [line.rstrip() for line in lines]


def test_mails_are_printed_without_the_buyers_link(tmp_path: Path) -> None:
    with reference(tmp_path, extra=["--mails", "stdout"]) as server:
        product = server.storefront("GET", "/products").data()[0]
        order = server.storefront("POST", "/orders", cart(product)).data()
        head, subject, *lines = first_mail(server)
    assert re.fullmatch(rf"mail mail_\w+ to {CUSTOMER['email']}", head)
    assert subject == f"  Subject: Your order #{order['number']} at Demo Traders"
    link = f"{server.public_url}/shop/demo#/orders/(redacted)"
    assert f"  Follow your order: {link}" in lines
    assert order["trackingToken"] not in "\n".join(lines)
    assert not (tmp_path / "mails").exists()


def post(words: str) -> ComposedMail:
    letter = MailText("a@b.example", words, [words], sender="Shop")
    message = compose(letter, "shop@b.example", "mail_1", 0)
    return ComposedMail("mail_1", "shop@b.example", letter.to, message)


def test_text_of_buyers_is_not_rendered_as_html() -> None:
    text = shown(post("\x1b[2JCafé\nmail mail_2 to x@y.example"))
    head, *lines = text.splitlines()
    assert head == "mail mail_1 to a@b.example"
    assert all(line.startswith("  ") or not line for line in lines)
    assert "\x1b" not in text
    assert "\\x1b[2JCaf" in text
    assert "Café" in shown(post("Café"))


async def test_an_output_that_is_closed_is_a_failed_attempt() -> None:
    [outcome] = await StdoutTransport(descriptor=999_999).send([post("Hello")])
    assert outcome.error == "OSError"
    assert not outcome.hopeless


def test_mails_go_to_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--mails", "stdout"]).mails == "stdout"
    with pytest.raises(SystemExit):
        parse(["--mails", "stdout", "--smtp", "localhost:25"])
    assert "mails go to one place" in capsys.readouterr().err
