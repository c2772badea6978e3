"""Text of other people is shown as text: no terminal control codes, no markup."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backhaul.cli import output
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
def test_foreign_text_does_not_control_the_terminal(
    arguments: tuple[str, ...], office: Office
) -> None:
    said = in_process(*arguments, config=office.config)
    assert said.code == 0, said.err
    assert "\\x1b]0;owned\\x07" in said.out
    assert said.out.replace("\n", "").isprintable()


def test_an_error_message_does_not_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> None:
        raise Unusable(f"no:{STEERING.replace(chr(10), '')}")

    assert run(command, []) == 1
    assert capsys.readouterr().err == f"no:{SHOWN.replace(chr(92) + 'n', '')}\n"


@pytest.mark.parametrize("word", ["[/x]", "[red]blood", ":smile:"])
def test_a_search_term_is_not_read_as_markup(word: str, office: Office) -> None:
    said = in_process("search", word, config=office.config)
    assert (said.code, said.out) == (0, f"nothing contains {word!r}\n")


LONG = (
    '{"id":"ord_1","total":1398.10,"note":"\\u0041sha",'
    '"lines":[{"sku":"TEA-250","quantity":2}]}'
)


def test_long_json_is_printed_on_several_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.record([("body", LONG), ("short", '{"a":1}'), ("text", "{no JSON" * 20)])
    head, *lines, short, text = capsys.readouterr().out.splitlines()
    assert head == "body"
    assert lines[:4] == [
        "  {",
        '    "id": "ord_1",',
        '    "total": 1398.10,',
        '    "note": "\\u0041sha",',
    ]
    assert short.split() == ["short", '{"a":1}']
    assert text.endswith("{no JSON" * 20)
    output.record([("body", LONG)], exact=True)
    assert capsys.readouterr().out.split() == ["body", LONG]


def test_json_that_is_too_long_says_how_much_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.record([("body", LONG)], most_json_lines=3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[-1] == "  … and 8 more lines; see --json"


def test_json_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": STEERING, "more": "x" * 80}
    output.record([("body", msgspec.json.encode(document))])
    assert "\x1b" not in capsys.readouterr().out
