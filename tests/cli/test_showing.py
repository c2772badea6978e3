"""What strangers write is shown as text: it steers no terminal and is no markup."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.cli.exit_codes import run
from backhaul.errors import Unusable
from scenes import payloads
from scenes.daemon import in_process
from scenes.mirror_files import fill, lone_office

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

STEERING = "Asha\x1b]0;owned\x07\x1b[2J\nfolded\x9b1m\u202e"
SHOWN = "Asha\\x1b]0;owned\\x07\\x1b[2J\\nfolded\\x9b1m\\u202e"


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    person: dict[str, Any] = {"id": "cus_1", "name": STEERING, "email": "a@b.example"}
    order = payloads.order(name=STEERING, customer=person)
    bodies = [
        payloads.envelope("customers/create", payloads.customer(**person)),
        payloads.envelope("orders/create", order),
    ]
    with lone_office() as found:
        asyncio.run(fill(found, *bodies))
        assert in_process("search", "--rebuild", config=found.config).code == 0
        yield found


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "SELECT name FROM customers"),
        ("query", f"SELECT 1 AS '{STEERING}'"),
        ("search", "asha"),
        ("why", "customer", "cus_1"),
        ("why", "order", "ord_1"),
    ],
    ids=["value", "heading", "found", "customer", "order"],
)
def test_a_strangers_text_does_not_steer_the_terminal(
    arguments: tuple[str, ...], office: Office
) -> None:
    said = in_process(*arguments, config=office.config)
    assert said.code == 0, said.err
    assert "\\x1b]0;owned\\x07" in said.out
    assert said.out.replace("\n", "").isprintable()


def test_neither_does_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise Unusable(f"no:{STEERING.replace(chr(10), '')}")

    assert run(command, []) == 1
    assert capsys.readouterr().err == f"no:{SHOWN.replace(chr(92) + 'n', '')}\n"


@pytest.mark.parametrize("word", ["[/x]", "[red]blood", ":smile:"])
def test_what_is_asked_for_is_no_markup(word: str, office: Office) -> None:
    said = in_process("search", word, config=office.config)
    assert (said.code, said.out) == (0, f"nothing contains {word!r}\n")
