"""No log of any process shows a secret; the end of the run looks once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import session

if TYPE_CHECKING:
    from pathlib import Path


def test_no_log_shows_an_issued_secret() -> None:
    assert session.leaks() == []


def test_a_secret_in_a_log_is_found_and_not_repeated(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("fine\nasked for /track/token-0123456789 twice\n")
    found = list(session.hits([log], ["token-0123456789"]))
    assert found == ["x.log:2: asked for /track/<the secret> twice"]


def test_secrets_of_an_answer_are_recognized() -> None:
    body = '{"key":"svc_live_Ab9","secret":"whsec_a+/=","trackingToken":"x-Y_1"}'
    found = session.ISSUED.findall(body)
    assert found == ["svc_live_Ab9", "whsec_a+/=", "x-Y_1"]
