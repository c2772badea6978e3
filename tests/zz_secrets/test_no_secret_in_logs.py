"""The check that no log of any process contains a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes import leftovers

if TYPE_CHECKING:
    from pathlib import Path


def test_a_secret_in_a_log_is_found_and_not_repeated(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("fine\nasked for /track/token-0123456789 twice\n")
    found = list(leftovers.hits([log], ["token-0123456789"]))
    assert found == ["x.log:2: asked for /track/<the secret> twice"]


@pytest.mark.parametrize("others", [0, 2 * leftovers.FEW], ids=["alone", "of many"])
def test_a_token_amid_letters_is_found(others: int, tmp_path: Path) -> None:
    tokens = [f"{number:0{leftovers.TOKEN_BYTES}}" for number in range(others + 1)]
    log = tmp_path / "x.log"
    log.write_text(f"fine x-{tokens[-1]}_y")
    assert leftovers.contains_any(log, tokens)
    log.write_text(f"fine x-{tokens[-1][1:]}_y")
    assert not leftovers.contains_any(log, tokens)


def test_secrets_of_an_answer_are_recognized() -> None:
    body = '{"key":"svc_live_Ab9","secret":"whsec_a+/=","trackingToken":"x-Y_1"}'
    found = leftovers.ISSUED.findall(body)
    assert found == ["svc_live_Ab9", "whsec_a+/=", "x-Y_1"]
