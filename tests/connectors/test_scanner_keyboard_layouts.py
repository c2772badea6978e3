"""Codes typed through another keyboard layout than the scanner's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.scanner.actions import COMMANDS
from backhaul_connectors.scanner.keyboard_layouts import command_in, garbled, readings

US = "QWERTYUIOPASDFGHJKLZXCVBNM1234567890-"
TYPED = {
    "French": "AZERTYUIOPQSDFGHJKLWXCVBN?&é\"'(-è_çà)",
    "German": "QWERTZUIOPASDFGHJKLYXCVBNM1234567890ß",
    "Spanish": "QWERTYUIOPASDFGHJKLZXCVBNM1234567890'",
    "Swedish": "QWERTYUIOPASDFGHJKLZXCVBNM1234567890+",
    "Czech": "QWERTZUIOPASDFGHJKLYXCVBNM+ěščřžýáíé=",
    "Hungarian": "QWERTZUIOPASDFGHJKLYXCVBNM123456789öü",
    "Russian": "ЙЦУКЕНГШЩЗФЫВАПРОЛДЯЧСМИТЬ1234567890-",  # noqa: RUF001
}


@pytest.mark.parametrize("layout", TYPED)
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_control_code_works_through_every_layout(layout: str, command: str) -> None:
    typed = command.translate(str.maketrans(US, TYPED[layout]))
    assert command_in(typed, COMMANDS) == command
    assert command_in(typed.lower(), COMMANDS) == command


@pytest.mark.parametrize("code", ["BH6CLOSE", "BH/CLOSE", "BH6PQCK", "bh_close"])
def test_a_scanner_with_another_layout_than_the_computer(code: str) -> None:
    assert command_in(code, COMMANDS) in COMMANDS


@pytest.mark.parametrize("code", ["BHCLOSE", "BH-CLOSED", "LS-S", "BH", "", "BH1DROP"])
def test_other_codes_are_no_control_codes(code: str) -> None:
    assert command_in(code, COMMANDS) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [("&àà&", "1001"), ("+éé+", "1001"), ("!))!", "1001"), ("LB)&àà", "LB-100")],
)
def test_digits_of_another_layout_are_recognized(code: str, text: str) -> None:
    found = garbled(code)
    assert found is not None
    assert found[1] == text


@pytest.mark.parametrize(
    "code", ["1001", "LS-XL", "S-M-L", "A-B-C-", "Café", "R&D", "ÜBER-L", "D'OR-L"]
)
def test_honest_codes_are_not(code: str) -> None:
    assert garbled(code) is None


@given(st.text(st.sampled_from("ABCDXYZ-"), min_size=1, max_size=12))
def test_a_reading_equals_the_text_of_the_label(code: str) -> None:
    for layout in ("French", "German", "Czech"):
        typed = code.translate(str.maketrans(US, TYPED[layout]))
        assert typed == code or code in [text for _, text in readings(typed)]
