"""A tracking token in any file except a mail is found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scenes import leftovers, tracking_tokens
from scenes.daemon import Office
from scenes.merchant import idle_outbox
from scenes.reference_shop import cart, open_shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """What a server leaves that has sold something and written a letter of it."""
    async with open_shop(tmp_path / "reference") as shop:
        await shop.shopper("POST", "/orders", cart(await shop.product()))
        await idle_outbox(shop)
    return tmp_path


@pytest.fixture
def token(folder: Path) -> str:
    (found,) = tracking_tokens.issued_by(folder / "reference")
    return found


@pytest.fixture
def planted(folder: Path) -> Iterator[Path]:
    """A file that is taken away, since the search after the test would find it."""
    path = folder / "planted.log"
    yield path
    path.unlink()


def test_tokens_are_made_again_without_asking(folder: Path, token: str) -> None:
    assert token in leftovers.all_issued()
    letters = list((folder / "reference" / "mails").iterdir())
    assert any(token in letter.read_text() for letter in letters)
    tracking_tokens.check_servers(folder)


@pytest.mark.parametrize("around", ["{}", "GET /track/{} 200", "x-{}_y", "{}" * 2])
def test_a_token_in_a_log_is_found(
    folder: Path, token: str, planted: Path, around: str
) -> None:
    planted.write_text("fine\n" * 100 + around.replace("{}", token) + "\nfine\n")
    with pytest.raises(AssertionError, match=r"planted\.log"):
        tracking_tokens.check_servers(folder)


def test_a_token_in_a_database_is_found(
    folder: Path, token: str, planted: Path
) -> None:
    with closing(sqlite3.connect(planted)) as connection, connection:
        connection.execute("CREATE TABLE events(body BLOB)")
        body = f'{{"data":{{"trackingToken":"{token}"}}}}'.encode()
        connection.execute("INSERT INTO events VALUES(?)", (body,))
    with pytest.raises(AssertionError, match=r"planted\.log"):
        tracking_tokens.check_servers(folder)


def test_a_token_at_rest_instead_of_its_hash_is_found(folder: Path, token: str) -> None:
    keep_in_its_place(folder, token)
    with pytest.raises(AssertionError):
        tracking_tokens.issued_by(folder / "reference")
    (folder / "reference" / tracking_tokens.DATABASE).unlink()


def keep_in_its_place(folder: Path, token: str) -> None:
    database = folder / "reference" / tracking_tokens.DATABASE
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE orders SET token_hash = ?", (token,))


def test_a_token_in_a_daemons_files_is_found(token: str) -> None:
    office = Office("http://127.0.0.1:9", "svc_live_none")
    log = office.folder / "state.log"
    log.write_text(f"asked for {token}")
    with pytest.raises(AssertionError, match=r"state\.log"):
        office.remove()
    log.unlink()
    office.remove()
    assert not office.folder.exists()


def test_a_webhooks_body_is_searched_like_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(leftovers.VARIABLE, str(tmp_path))
    token = "t" * leftovers.TOKEN_BYTES
    leftovers.issued(token)
    body = f'{{"trackingToken":"{token}"}}'
    leftovers.keep_delivery({"X-Service-Topic": "orders/create"}, body.encode())
    (found,) = leftovers.leaks()
    assert found.startswith("webhooks-")
    assert token not in found
