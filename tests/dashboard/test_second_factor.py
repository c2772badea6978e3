"""The second factor: enabled by a user, required at login, reset by an admin."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.admin.second_factor import (
    RECOVERY_CODES,
    STEP_SECONDS,
    SecondFactors,
    code_at,
)
from backhaul.errors import BackhaulError
from backhaul.store.operators import BEGUN_SECONDS
from scenes.clock import VirtualClock
from scenes.damaged_rows import refused_rows
from scenes.dashboard import PASSWORD, open_office
from scenes.databases import started_store
from scenes.stored import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import ClientResponse

    from scenes.dashboard import Browser, Office

# RFC 6238, appendix B: the key is the text 12345678901234567890.
RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
RFC_CODES = {
    59: "94287082",
    1111111109: "07081804",
    1111111111: "14050471",
    1234567890: "89005924",
    2000000000: "69279037",
    20000000000: "65353130",
}


@pytest.mark.parametrize("seconds", RFC_CODES)
def test_codes_are_those_of_the_rfc(seconds: int) -> None:
    assert code_at(RFC_SECRET, seconds // STEP_SECONDS, 8) == RFC_CODES[seconds]
    assert code_at(RFC_SECRET, seconds // STEP_SECONDS) == RFC_CODES[seconds][2:]


def code(office: Office, secret: str, steps: int = 0) -> str:
    now = int(office.clock.now().timestamp()) // STEP_SECONDS
    return code_at(secret, now + steps)


async def begin(browser: Browser) -> str:
    """Begin to set up a second factor; return its secret."""
    answer = await browser.post("/account/totp/begin", password=PASSWORD)
    assert answer.status == 303, await answer.text()
    page = await browser.read("/account/totp")
    found = re.search(r"<pre[^>]*>([A-Z2-7]{32})</pre>", page)
    assert found is not None
    assert 'class="qr"' in page
    return found[1]


async def turn_on(office: Office, browser: Browser) -> tuple[str, list[str]]:
    """Turn the second factor on; return its secret and the recovery codes."""
    secret = await begin(browser)
    answer = await browser.post("/account/totp/confirm", code=code(office, secret))
    assert answer.status == 200
    codes = codes_on(await answer.text())
    await office.clock.advance(STEP_SECONDS)
    return secret, codes


def codes_on(page: str) -> list[str]:
    return re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", page)


async def enter(browser: Browser, code: str) -> ClientResponse:
    """Log in with the right password, and enter a code."""
    asked = await browser.post("/login", name="vera", password=PASSWORD)
    assert (asked.status, asked.headers["Location"]) == (303, "/login/code")
    assert browser.cookie() is None
    return await browser.post("/login/code", code=code)


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/")).status == 200


def details(office: Office) -> list[str]:
    found = rows_of(office.path, "audit", "who", "action", "detail")
    return [
        f"{who} {action}: {detail}"
        for who, action, detail in found
        if action in {"users totp", "users recovery"}
    ]


async def test_a_user_turns_it_on_and_logs_in_with_a_code(office: Office) -> None:
    vera = await office.browser("vera")
    secret = await begin(vera)
    wrong = await vera.post("/account/totp/confirm", code="000000")
    assert wrong.status == 422
    assert secret in await wrong.text()
    assert (await (await office.browser()).log_in("vera")).headers["Location"] == "/"
    secret, codes = await turn_on(office, vera)
    assert len(set(codes)) == RECOVERY_CODES
    browser = await office.browser()
    assert (await enter(browser, code(office, secret))).headers["Location"] == "/"
    assert await is_in(browser)
    assert "You have 10 recovery codes left" in await browser.read("/account")
    assert details(office) == ["vera users totp: vera: on"]


async def test_the_path_is_kept_over_both_steps(office: Office) -> None:
    secret, _ = await turn_on(office, await office.browser("vera"))
    browser = await office.browser()
    await browser.post("/login", name="vera", password=PASSWORD, next="/events")
    assert 'autocomplete="one-time-code"' in await browser.read("/login/code")
    answer = await browser.post("/login/code", code=code(office, secret))
    assert answer.headers["Location"] == "/events"


async def test_a_login_without_the_code_is_refused(office: Office) -> None:
    secret, _ = await turn_on(office, await office.browser("vera"))
    browser = await office.browser()
    for wrong in ("", "000000", "x" * 64, "١٢٣٤٥٦"):
        assert (await enter(browser, wrong)).status == 401
        assert not await is_in(browser)
    # The code alone, in a browser that gave no password:
    other = await office.browser()
    answer = await other.post("/login/code", code=code(office, secret))
    assert (answer.status, await is_in(other)) == (401, False)
    assert (await other.get("/login/code")).headers["Location"] == "/login"


@pytest.mark.parametrize(
    ("steps", "status"), [(-2, 401), (-1, 303), (0, 303), (1, 303), (2, 401)]
)
async def test_a_clock_may_be_one_step_off(
    office: Office, steps: int, status: int
) -> None:
    secret, _ = await turn_on(office, await office.browser("vera"))
    await office.clock.advance(10 * STEP_SECONDS)
    answer = await enter(await office.browser(), code(office, secret, steps))
    assert answer.status == status


async def test_a_code_counts_once(office: Office) -> None:
    vera = await office.browser("vera")
    secret = await begin(vera)
    typed = code(office, secret)
    await vera.post("/account/totp/confirm", code=typed)
    assert (await enter(await office.browser(), typed)).status == 401
    later = code(office, secret, 1)
    assert (await enter(await office.browser(), later)).status == 303
    # Neither again, nor one of an earlier step:
    for used in (later, typed):
        assert (await enter(await office.browser(), used)).status == 401


async def test_a_recovery_code_counts_once(office: Office) -> None:
    _, codes = await turn_on(office, await office.browser("vera"))
    browser = await office.browser()
    assert (await enter(browser, codes[3].upper().replace("-", " "))).status == 303
    assert "You have 9 recovery codes left" in await browser.read("/account")
    other = await office.browser()
    assert (await enter(other, codes[3])).status == 401
    assert (await enter(other, codes[4])).status == 303
    assert details(office)[1:] == [
        f"vera users recovery: {left} codes are left" for left in (9, 8)
    ]


async def test_guesses_are_slowed_down(office: Office) -> None:
    secret, _ = await turn_on(office, await office.browser("vera"))
    await office.clock.advance(4_000)
    browser = await office.browser()
    await browser.post("/login", name="vera", password=PASSWORD)
    statuses = [
        (await browser.post("/login/code", code="000000")).status for _ in range(40)
    ]
    assert statuses == [*[401] * statuses.count(401), *[429] * statuses.count(429)]
    assert 0 < statuses.count(401) <= 20
    # Also with the right code, and the right password does not reset the count.
    right = await browser.post("/login/code", code=code(office, secret))
    assert right.status == 429
    again = await office.browser()
    answer = await again.post("/login", name="vera", password=PASSWORD)
    assert answer.status == 429


async def test_the_second_step_ends_with_the_password_and_after_ten_minutes(
    office: Office,
) -> None:
    secret, _ = await turn_on(office, await office.browser("vera"))
    browser = await office.browser()
    await browser.post("/login", name="vera", password=PASSWORD)
    await office.clock.advance(BEGUN_SECONDS)
    answer = await browser.post("/login/code", code=code(office, secret))
    assert (answer.status, await is_in(browser)) == (401, False)
    await browser.post("/login", name="vera", password=PASSWORD)
    hashed = await office.passwords.hash(PASSWORD * 2)
    await office.store.users.set_secret("vera", hashed, "the test")
    answer = await browser.post("/login/code", code=code(office, secret))
    assert (answer.status, await is_in(browser)) == (401, False)


async def test_the_database_holds_neither_secret_nor_codes(office: Office) -> None:
    secret, codes = await turn_on(office, await office.browser("vera"))
    with closing(sqlite3.connect(office.path)) as connection:
        stored = "\n".join(connection.iterdump())
    for each in (secret, *codes, *(code.replace("-", "") for code in codes)):
        assert each not in stored
    key = office.settings.state_dir / "secrets" / "totp.key"
    assert key.stat().st_mode & 0o777 == 0o600
    user = await office.store.users.find("vera")
    assert user is not None
    assert secret not in repr(user)
    # The sealed secret of one user opens no other user's login.
    factors = SecondFactors(office.settings, office.store.users, office.clock)
    assert factors.open("vera", user.totp or "") == secret
    with pytest.raises(BackhaulError, match="reset-totp otto"):
        factors.open("otto", user.totp or "")


async def test_a_lost_key_is_reported_with_the_remedy(office: Office) -> None:
    secret, _ = await turn_on(office, await office.browser("vera"))
    (office.settings.state_dir / "secrets" / "totp.key").write_text("another" * 8)
    browser = await office.browser()
    answer = await enter(browser, code(office, secret))
    assert answer.status == 503
    assert "backhaul users reset-totp vera" in await answer.text()
    assert not await is_in(browser)


async def test_the_password_turns_it_off_and_renews_its_codes(
    office: Office,
) -> None:
    browser = await office.browser("vera")
    secret, codes = await turn_on(office, browser)
    for verb in ("codes", "off"):
        answer = await browser.post(f"/account/totp/{verb}", password="wrong")
        assert answer.status == 422
    answer = await browser.post("/account/totp/codes", password=PASSWORD)
    renewed = codes_on(await answer.text())
    assert len(set(renewed) - set(codes)) == RECOVERY_CODES
    assert (await enter(await office.browser(), codes[0])).status == 401
    assert (await enter(await office.browser(), renewed[0])).status == 303
    assert (await browser.post("/account/totp/off", password=PASSWORD)).status == 303
    assert (await (await office.browser()).log_in("vera")).headers["Location"] == "/"
    assert secret not in str(await office.store.users.find("vera"))
    assert details(office)[1:] == [
        "vera users totp: vera: new recovery codes",
        "vera users recovery: 9 codes are left",
        "vera users totp: vera: off",
    ]


async def test_an_administrator_resets_it(office: Office) -> None:
    vera, ada = await office.browser("vera"), await office.browser("ada")
    await turn_on(office, vera)
    assert "password and one-time code" in await ada.read("/users")
    assert (await vera.post("/users/resettotp", name="vera")).status == 403
    assert (await ada.post("/users/resettotp", name="vera")).status == 303
    assert (await (await office.browser()).log_in("vera")).headers["Location"] == "/"
    assert details(office)[1:] == ["ada users totp: vera: reset"]


async def test_without_its_audit_entry_nothing_changes(office: Office) -> None:
    browser = await office.browser("vera")
    secret = await begin(browser)
    typed = code(office, secret)
    for verb, form in (
        ("confirm", {"code": typed}),
        ("codes", {"password": PASSWORD}),
        ("off", {"password": PASSWORD}),
    ):
        before = await office.store.users.find("vera")
        with refused_rows(office.path, "audit", "no room for the audit"):
            answer = await browser.post(f"/account/totp/{verb}", **form)
            assert answer.status >= 500
        assert await office.store.users.find("vera") == before
        answer = await browser.post(f"/account/totp/{verb}", **form)
        assert answer.status in {200, 303}


async def test_the_second_factor_can_be_required_of_every_user_with_a_password(
    tmp_path: Path,
) -> None:
    async with open_office(tmp_path, require_totp=True) as office:
        await office.add_users()
        browser = await office.browser()
        await browser.post("/login", name="vera", password=PASSWORD)
        for path in ("/", "/events", "/account", "/users"):
            assert (await browser.get(path)).headers["Location"] == "/account/totp"
        live = await browser.get("/charts.json", headers={"HX-Request": "true"})
        assert (live.status, live.headers["HX-Redirect"]) == (401, "/account/totp")
        page = await browser.read("/account/totp")
        assert "needs a second factor here" in page
        found = re.search(r'name="csrf" value="([\w-]+)"', page)
        assert found is not None
        browser.csrf = found[1]
        assert (await browser.post("/account/password")).status == 303
        await turn_on(office, browser)
        assert await is_in(browser)
        refused = await browser.post("/account/totp/off", password=PASSWORD)
        assert refused.status == 422
        assert "require_totp is true" in await refused.text()


async def test_secrets_are_sealed_again_with_the_first_key(tmp_path: Path) -> None:
    """After a move to PostgreSQL, or when a key is replaced."""
    async with open_office(tmp_path) as office:
        await office.add_users()
        secret, _ = await turn_on(office, await office.browser("vera"))
    shared = office.settings.model_copy(
        update={
            "database": office.settings.database.model_validate(
                {"url": "postgresql://db.example/backhaul"}
            ),
            "cluster": office.settings.cluster.model_validate({"key": ["k" * 32]}),
        }
    )
    clock = VirtualClock()
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        factors = SecondFactors(shared, store.users, clock)
        await factors.reseal()
        (tmp_path / "secrets" / "totp.key").unlink()
        vera = await store.users.find("vera")
        assert vera is not None
        assert factors.open("vera", vera.totp or "") == secret
        unkeyed = shared.model_copy(
            update={"cluster": office.settings.cluster.model_validate({})}
        )
        with pytest.raises(BackhaulError, match="all machines encrypt"):
            SecondFactors(unkeyed, store.users, clock).seal("vera", secret)
