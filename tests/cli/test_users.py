"""Users are added, changed and removed on the command line, without a daemon."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.opening import open_store
from scenes.daemon import Office, daemon_process, in_process, office_of
from scenes.stored import rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import CommandResult
    from scenes.reference_process import ReferenceProcess

PASSWORD = "correct horse battery staple"


@pytest.fixture
def office() -> Iterator[Office]:
    """Return an office whose platform is not used."""
    made = Office("http://127.0.0.1:9", "svc_live_of_nobody")
    made.database.parent.mkdir()
    open_store(made.database, SystemClock())
    yield made
    made.remove()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipe the password into the command."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))


def say(office: Office, *words: str) -> CommandResult:
    return in_process("users", *words, config=office.config)


def roles(office: Office) -> dict[str, str]:
    return {row["name"]: row["role"] for row in say(office, "list", "--json").json()}


@pytest.mark.usefixtures("typed")
def test_a_user_comes_and_changes_and_stays_as_the_last_admin(office: Office) -> None:
    assert "there is no user yet" in say(office, "list").out
    assert say(office, "add", "ann", "--role", "admin", "--stdin").code == 0
    assert roles(office) == {"ann": "admin"}
    for words in (("remove", "ann"), ("role", "ann", "viewer")):
        refused = say(office, *words)
        assert (refused.code, "is the last administrator" in refused.err) == (1, True)
    assert PASSWORD not in office.database.read_bytes().decode(errors="replace")
    audited = rows_of(office.database, "audit", "action", "detail")
    assert audited == [("users add", "ann as admin")]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("add", "bob", "--role", "operator", "--stdin"), {"role": "operator"}),
        (("role", "bob", "viewer"), {"role": "viewer"}),
        (("password", "bob", "--stdin"), {}),
        (("remove", "bob"), {}),
        (("disable", "bob"), {"disabled": True}),
        (("enable", "bob"), {"disabled": False}),
        (("reset-totp", "bob"), {}),
    ],
)
def test_each_change_is_reported_as_json(
    office: Office,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    printed: dict[str, object],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n" * 2))
    if words[0] != "add":
        assert say(office, "add", "bob", "--role", "admin", "--stdin").code == 0
        if words[0] != "password":
            assert say(office, "add", "ann", "--role", "admin", "--stdin").code == 0
    assert say(office, *words, "--json").json() == {"name": "bob", **printed}


def test_a_password_is_prompted_for_beside_the_json_output(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output for programs is JSON only."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n" * 2))
    monkeypatch.setattr("getpass.getpass", lambda _, stream=None: PASSWORD)
    said = say(office, "add", "ann", "--json")
    assert said.json() == {"name": "ann", "role": "viewer"}


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "ann", "--role", "king", "--stdin"), "no role is called 'king'"),
        (("add", "Ann B", "--stdin"), "of the characters a-z"),
        (("remove", "eve"), "user eve does not exist"),
        (("password", "eve", "--stdin"), "user eve does not exist"),
        (("disable", "eve"), "user eve does not exist"),
        (("reset-totp", "eve"), "user eve does not exist"),
    ],
)
def test_an_impossible_change_is_refused_in_words(
    office: Office, words: tuple[str, ...], why: str
) -> None:
    refused = say(office, *words)
    assert (refused.code, why in refused.err) == (1, True), refused.err
    assert roles(office) == {}


def test_a_short_password_is_refused(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    refused = say(office, "add", "ann", "--stdin")
    assert (refused.code, "12 to" in refused.err) == (1, True)


@pytest.mark.usefixtures("typed")
def test_a_container_that_runs_as_a_mere_number_may_change_things(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SUDO_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert say(office, "add", "ann", "--role", "admin", "--stdin").code == 0
    assert values_of(office.database, "audit", "who") == ["uid 4000000"]


def shown(office: Office) -> str:
    return in_process("status", config=office.config).out


@pytest.mark.usefixtures("typed")
def test_the_token_for_the_first_login_goes_with_the_first_user(office: Office) -> None:
    token = office.database.parent / "first-login-token"
    token.write_text("of the daemon that ran before\n")
    assert "no user yet" in shown(office)
    assert say(office, "add", "ann", "--role", "admin", "--stdin").code == 0
    assert not token.exists()
    assert "no user yet" not in shown(office)
    token.write_text("of a daemon that could not take it away\n")
    assert "no user yet" not in shown(office)


@pytest.mark.programs
@pytest.mark.usefixtures("typed")
def test_users_can_be_changed_beside_a_running_daemon(
    platform: ReferenceProcess,
) -> None:
    with office_of(platform) as office, daemon_process(office) as started:
        started.await_ready()
        token = office.database.parent / "first-login-token"
        assert token.exists()
        assert "no user yet" in shown(office)
        assert say(office, "add", "ann", "--role", "admin", "--stdin").code == 0
        assert not token.exists()
        assert "no user yet" not in shown(office)
        assert started.terminate() == 0
