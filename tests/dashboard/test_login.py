"""Login: passwords, sessions, the first user, and the throttling of attempts."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from backhaul.admin.accounts import FREE_ADDRESS, Passwords
from backhaul.store.operators import MAX_IDLE_SECONDS, MAX_SESSION_SECONDS, Role
from scenes.dashboard import COOKIE, PASSWORD, open_office
from scenes.databases import locked
from scenes.stored import count

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import ClientResponse

    from scenes.dashboard import Browser, Office

FIRST = {"name": "ann", "password": PASSWORD, "again": PASSWORD}


def cookie_line(answer: ClientResponse) -> str:
    (line,) = answer.headers.getall("Set-Cookie")
    return line


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/")).status == 200


async def test_a_password_is_kept_as_scrypt_only(office: Office) -> None:
    vera = await office.store.users.find("vera")
    assert vera is not None
    assert vera.secret.startswith("$scrypt$ln=14,r=8,p=5$")
    assert PASSWORD not in vera.secret


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
        "$scrypt$ln=14,r=8,p=5$A$aGFzaGhhc2g",
        "$scrypt$ln=14,r=8,p=5$c2FsdHNhbHQ",
        "$scrypt$ln=14,r=8,p=5$c2FsdHNhbHQ$ħash",
        "$scrypt$ln=99,r=99,p=99$c2FsdHNhbHQ$aGFzaGhhc2g",
    ],
)
async def test_a_hash_that_is_no_hash_fits_no_password(damaged: str) -> None:
    assert not await Passwords().verify(damaged, PASSWORD)


@pytest.mark.parametrize(
    ("name", "password"), [("vera", "wrong" * 3), ("nobody", PASSWORD), ("", "")]
)
async def test_a_wrong_name_or_password_is_refused(
    office: Office, name: str, password: str
) -> None:
    browser = await office.browser()
    answer = await browser.log_in(name, password)
    assert answer.status == 401
    assert "The name or the password is wrong" in await answer.text()
    assert not await is_in(browser)


async def test_the_cookie_is_of_this_site_and_out_of_reach_of_scripts(
    office: Office,
) -> None:
    browser = await office.browser()
    line = cookie_line(await browser.log_in("vera"))
    assert line.startswith(f"{browser.cookie_name}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(line.split("; "))
    # Plain http on this machine: a browser would not send a Secure cookie back.
    assert "Secure" not in line
    assert len(line.split(";")[0].partition("=")[2]) >= 43  # 256 bits in base64


async def test_each_login_has_a_token_of_its_own_and_ends_the_one_before(
    office: Office,
) -> None:
    browser = await office.browser("vera")
    first = browser.cookie()
    await browser.log_in("vera")
    assert browser.cookie() != first
    other = await office.browser()
    answer = await other.get("/", cookies={other.cookie_name: first or ""})
    assert answer.status == 303


async def test_a_login_at_another_port_of_the_machine_keeps_the_session(
    office: Office, tmp_path: Path
) -> None:
    """Cookies know nothing of ports: a browser sends both dashboards both of them."""
    browser = await office.browser("vera")
    async with open_office(tmp_path / "other") as second:
        await second.add_users()
        other = await second.browser("otto")
        assert other.cookie_name != browser.cookie_name
        both = {one.cookie_name: one.cookie() or "" for one in (browser, other)}
        for where in (office, second):
            page = await (await where.browser()).get("/", cookies=both)
            assert page.status == 200
        await other.post("/logout")
    assert await is_in(browser)


@pytest.mark.parametrize("host", ["[::1", "127.0.0.1:x", "localhost:99999"])
async def test_a_host_that_cannot_be_shows_the_way_in(
    office: Office, host: str
) -> None:
    browser = await office.browser("vera")
    assert (await browser.get("/", headers={"Host": host})).status == 303


async def test_a_logout_ends_the_session(office: Office) -> None:
    browser = await office.browser("vera")
    token = browser.cookie()
    await browser.post("/logout")
    other = await office.browser()
    answer = await other.get("/", cookies={other.cookie_name: token or ""})
    assert (await is_in(browser), answer.status) == (False, 303)


async def test_half_an_hour_without_a_click_ends_a_session(office: Office) -> None:
    browser = await office.browser("vera")
    for _ in range(3):
        await office.clock.advance(MAX_IDLE_SECONDS - 1)
        assert await is_in(browser)
    await office.clock.advance(MAX_IDLE_SECONDS + 1)
    assert not await is_in(browser)


async def test_a_page_that_refreshes_itself_keeps_no_session_alive(
    office: Office,
) -> None:
    browser = await office.browser("vera")
    await office.clock.advance(MAX_IDLE_SECONDS - 1)
    assert (await browser.get("/charts.json")).status == 200
    await office.clock.advance(2)
    answer = await browser.get("/charts.json", headers={"HX-Request": "true"})
    assert (answer.status, answer.headers["HX-Redirect"]) == (401, "/login")


async def test_after_twelve_hours_everybody_logs_in_again(office: Office) -> None:
    browser = await office.browser("vera")
    for _ in range(int(MAX_SESSION_SECONDS // (MAX_IDLE_SECONDS - 1))):
        await office.clock.advance(MAX_IDLE_SECONDS - 1)
        assert await is_in(browser)
    await office.clock.advance(MAX_IDLE_SECONDS - 1)
    assert not await is_in(browser)


async def test_a_change_of_a_user_applies_at_once(office: Office) -> None:
    browser = await office.browser("ada")
    users = office.store.users
    await users.add("eve", Role.ADMIN, "none", "the test")
    await users.set_role("ada", Role.VIEWER, "the test")
    assert (await browser.get("/users")).status == 403
    await users.set_secret("ada", await office.passwords.hash(PASSWORD * 2), "the test")
    assert not await is_in(browser)
    await browser.log_in("ada", PASSWORD * 2)
    assert await is_in(browser)
    await users.remove("ada", "the test")
    assert not await is_in(browser)


async def test_a_disabled_user_is_out_at_once_and_cannot_log_in(office: Office) -> None:
    browser, ada = await office.browser("vera"), await office.browser("ada")
    assert (await ada.post("/users/disable", name="vera")).status == 303
    assert not await is_in(browser)
    refused = await browser.log_in("vera")
    assert (refused.status, "is disabled" in await refused.text()) == (403, True)
    assert (await browser.log_in("vera", "wrong" * 3)).status == 401
    assert not await is_in(browser)
    assert (await ada.post("/users/enable", name="vera")).status == 303
    assert (await browser.log_in("vera")).status == 303


async def test_changing_the_own_password_needs_the_old_one(office: Office) -> None:
    browser, elsewhere = await office.browser("vera"), await office.browser("vera")
    new = {"new": PASSWORD * 2, "again": PASSWORD * 2}
    assert (await browser.post("/account/password", old="?", **new)).status == 422
    assert await is_in(elsewhere)
    changed = await browser.post("/account/password", old=PASSWORD, **new)
    assert changed.status == 303
    assert not await is_in(elsewhere)
    assert (await browser.log_in("vera", PASSWORD * 2)).status == 303


async def test_a_database_that_accepts_no_writes_still_allows_logins(
    office: Office, lines: list[str]
) -> None:
    """An operator comes then to see why; the log has what the audit has not."""
    browser = await office.browser("vera")
    with locked(office.path):
        assert (await browser.log_in("vera")).status == 303
        assert await is_in(browser)
        assert (await browser.log_in("vera", "a bad guess")).status == 401
    assert [line.split()[0] for line in lines if " logged in " in line] == [
        "dashboard.login",
        "dashboard.login_not_audited",
        "dashboard.login",
    ]
    assert count(office.path, "audit", action="users login") == 1


async def test_a_first_user_that_cannot_be_stored_sees_an_error_and_keeps_the_token(
    empty: Office,
) -> None:
    browser = await empty.browser()
    file = empty.settings.state_dir / "first-login-token"
    form = FIRST | {"token": file.read_text().strip()}
    with locked(empty.path):
        refused = await browser.post("/first", **form)
        said = "cannot be written now" in await refused.text()
    assert (refused.status, said, file.exists()) == (503, True, True)
    assert (await browser.post("/first", **form)).status == 303


async def test_a_new_password_that_is_not_sent_is_refused(office: Office) -> None:
    browser = await office.browser("vera")
    assert (await browser.post("/account/password", old=PASSWORD)).status == 422
    assert await is_in(browser)


async def test_password_guesses_are_slowed_down_and_a_wait_is_enough(
    office: Office,
) -> None:
    browser = await office.browser()
    for _ in range(6):
        await office.clock.advance(1)
        assert (await browser.log_in("vera", "a bad guess")).status == 401
    slowed = await browser.log_in("vera")
    assert (slowed.status, slowed.headers["Retry-After"]) == (429, "2")
    await office.clock.advance(2)
    assert (await browser.log_in("vera")).status == 303


async def test_a_guess_at_many_names_is_slowed_down_by_address(office: Office) -> None:
    browser = await office.browser()
    statuses = [
        (await browser.log_in(f"name{number}", "a bad guess")).status
        for number in range(FREE_ADDRESS + 2)
    ]
    assert statuses == [401] * FREE_ADDRESS + [429] * 2


async def test_the_first_user_shows_the_token_of_a_private_file(empty: Office) -> None:
    browser = await empty.browser()
    assert (await browser.get("/login")).headers["Location"] == "/first"
    file = empty.settings.state_dir / "first-login-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()
    assert token not in await browser.read("/first")
    wrong = await browser.post("/first", token="x" * 43, **FIRST)
    assert (wrong.status, await empty.store.users.list()) == (401, [])
    made = await browser.post("/first", token=token, **FIRST)
    assert (made.status, file.exists()) == (303, False)
    assert "admin" in await browser.read("/account")
    again = await browser.post("/first", token=token, **FIRST | {"name": "eve"})
    assert again.status == 401


async def test_a_token_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "first-login-token"
    (file / "in-the-way").mkdir(parents=True)
    async with open_office(tmp_path) as office:
        browser = await office.browser()
        refused = await browser.get("/first")
        assert refused.status == 503
        assert "cannot be written" in await refused.text()
        (file / "in-the-way").rmdir()
        file.rmdir()
        await browser.read("/first")
        assert file.read_text().strip()


async def test_an_empty_token_file_after_a_full_disk_is_written_again(
    empty: Office,
) -> None:
    file = empty.settings.state_dir / "first-login-token"
    file.write_text("")
    browser = await empty.browser()
    await browser.read("/first")
    made = await browser.post("/first", token=file.read_text().strip(), **FIRST)
    assert made.status == 303


@pytest.mark.parametrize(
    "changed",
    [{"password": "short", "again": "short"}, {"again": "different"}, {"name": "A b"}],
)
async def test_a_first_user_that_cannot_be_leaves_the_token(
    empty: Office, changed: dict[str, str]
) -> None:
    browser = await empty.browser()
    file = empty.settings.state_dir / "first-login-token"
    form = FIRST | changed | {"token": file.read_text().strip()}
    assert (await browser.post("/first", **form)).status == 422
    assert (file.exists(), await empty.store.users.list()) == (True, [])


@pytest.mark.parametrize(("port", "named"), [("", ""), (":8443", "_8443")])
async def test_behind_a_trusted_proxy_with_https_the_cookie_is_bound_to_the_host(
    tmp_path: Path, port: str, named: str
) -> None:
    async with open_office(tmp_path, trusted_proxies=["127.0.0.1"]) as office:
        await office.add_users()
        browser = await office.browser()
        said = browser.form_headers() | {
            "Host": f"backhaul.example{port}",
            "Origin": f"https://backhaul.example{port}",
            "X-Forwarded-Proto": "https",
        }
        form = {"name": "vera", "password": PASSWORD}
        line = cookie_line(await browser.send("/login", form, said))
        assert line.startswith(f"__Host-{COOKIE}{named}=")
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(
            line.split("; ")
        )
        assert "Domain" not in line
        plain = said | {"X-Forwarded-Proto": "http"}
        assert (await browser.send("/login", form, plain)).status == 403


async def test_a_remote_login_over_plain_http_is_refused(office: Office) -> None:
    browser = await office.browser()
    host = {"Host": "backhaul.lan:8751", "Origin": "http://backhaul.lan:8751"}
    # A peer that is not a trusted proxy may say what he likes.
    lie = {"X-Forwarded-Proto": "https"}
    form = {"name": "vera", "password": PASSWORD}
    answer = await browser.send("/login", form, browser.form_headers() | host | lie)
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers
    page = await browser.get("/login", headers=host)
    assert "<form" not in await page.text()


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://x.y"])
async def test_a_login_leads_nowhere_else(office: Office, wanted: str) -> None:
    browser = await office.browser()
    answer = await browser.post("/login", name="vera", password=PASSWORD, next=wanted)
    assert answer.headers["Location"] == "/"
