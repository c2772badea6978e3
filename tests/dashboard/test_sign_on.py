"""Single sign-on: who can log in with which role, and what others see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from backhaul.doctor.configuration import check_provider
from backhaul.store.operators import BEGUN_SECONDS, MAX_BEGUN_OF_CLIENT, Role
from scenes.clock import VirtualClock
from scenes.dashboard import PASSWORD
from scenes.identity_provider import (
    SECRET,
    open_both,
    sent_to,
    sign_on,
)
from scenes.stored import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.dashboard import Browser, Office
    from scenes.identity_provider import IdentityProvider

Both = tuple["Office", "IdentityProvider"]
NAME = "ann-lee"


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/")).status == 200


def audited(office: Office) -> list[tuple[str, str, str]]:
    return list(rows_of(office.path, "audit", "who", "action", "detail"))


async def role_of(office: Office, name: str = NAME) -> Role | None:
    user = await office.store.users.find(name)
    return user.role if user else None


async def test_a_new_user_logs_in_and_gets_a_role(both: Both) -> None:
    office, provider = both
    browser = await office.browser()
    address = await sent_to(browser, "/login/oidc?next=/events")
    query = parse_qs(urlsplit(address).query)
    assert query["tenant"] == ["1"]
    assert query["scope"] == ["openid profile email"]
    answer = await browser.get(provider.allow(address, groups=["staff", "it"]))
    # The page leads on itself: a redirect from another site has no strict cookie.
    assert answer.status == 200
    assert 'content="0; url=/events"' in await answer.text()
    assert await is_in(browser)
    user = await office.store.users.find(NAME)
    assert user is not None
    assert (user.role, user.identity) == (
        Role.ADMIN,
        f"{provider.issuer} 248289761001",
    )
    added = f"{NAME} as admin, with the identity {user.identity}"
    assert ("single sign-on", "users add", added) in audited(office)
    assert (NAME, "users login", "from 127.0.0.1") in audited(office)


@pytest.mark.parametrize(
    ("claims", "changed", "role"),
    [
        ({"groups": ["staff"]}, {}, Role.VIEWER),
        ({"groups": ["other", "warehouse", "staff"]}, {}, Role.OPERATOR),
        ({"groups": "it"}, {}, Role.ADMIN),
        ({"groups": None, "a": {"b": ["it"]}}, {"role_claim": "a.b"}, Role.ADMIN),
        ({"a.b": ["it"], "a": {"b": []}}, {"role_claim": "a.b"}, Role.ADMIN),
        ({"groups": ["Staff", "staff "]}, {}, None),
        ({"groups": None}, {}, None),
        ({"groups": [7, None]}, {}, None),
        ({"groups": {"staff": True}}, {}, None),
    ],
)
async def test_a_claim_decides_the_role(
    tmp_path: Path, claims: dict[str, Any], changed: dict[str, Any], role: Role | None
) -> None:
    async with open_both(tmp_path, VirtualClock(), oidc=changed) as (office, provider):
        browser = await office.browser()
        answer = await sign_on(browser, provider, **claims)
        assert (answer.status, await is_in(browser)) == (
            (200, True) if role else (403, False)
        )
        assert await role_of(office) == role
        if role is None:
            assert "gives none of the roles viewer, operator" in await answer.text()


async def test_the_role_follows_the_provider_at_each_login(both: Both) -> None:
    office, provider = both
    first, second = await office.browser(), await office.browser()
    await sign_on(first, provider, groups=["it"])
    await sign_on(second, provider, groups=["staff"])
    assert await role_of(office) is Role.VIEWER
    assert (await first.get("/users")).status == 403
    assert ("single sign-on", "users role", f"{NAME} is viewer now") in audited(office)
    # Whom the provider gives no role any more is out everywhere.
    answer = await sign_on(await office.browser(), provider, groups=[])
    assert answer.status == 403
    assert not await is_in(first)
    assert not await is_in(second)


async def test_a_local_user_is_never_matched_by_name(both: Both) -> None:
    office, provider = both
    browser = await office.browser()
    await sign_on(browser, provider, preferred_username="ada", email="ada@shop.example")
    ada, other = [await office.store.users.find(name) for name in ("ada", "ada-2")]
    assert ada is not None
    assert other is not None
    assert (ada.identity, other.role) == (None, Role.VIEWER)
    assert "ada-2" in await browser.read("/account")
    # The same person is found by the subject, under whatever name.
    await sign_on(await office.browser(), provider, preferred_username="otto")
    assert await office.store.users.find("otto-2") is None
    await sign_on(await office.browser(), provider, sub="another")
    assert await office.store.users.find("otto-2") is not None


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "Ann.Lee@Shop.example"}, "ann.lee@shop.example"),
        ({"preferred_username": "<script>"}, "script"),
        ({"preferred_username": "Ä" * 80}, "user"),
        ({"preferred_username": None}, "248289761001"),
        ({"preferred_username": "x" * 80}, "x" * 64),
    ],
)
async def test_the_name_of_a_new_user_is_one_of_the_dashboard(
    both: Both, claims: dict[str, Any], name: str
) -> None:
    office, provider = both
    assert (await sign_on(await office.browser(), provider, **claims)).status == 200
    assert await role_of(office, name) is Role.VIEWER


async def test_a_disabled_user_stays_out_until_enabled(both: Both) -> None:
    office, provider = both
    browser, ada = await office.browser(), await office.browser("ada")
    await sign_on(browser, provider)
    assert (await ada.post("/users/disable", name=NAME)).status == 303
    assert not await is_in(browser)
    answer = await sign_on(browser, provider)
    assert answer.status == 403
    assert "is disabled" in await answer.text()
    assert not await is_in(browser)
    assert (await ada.post("/users/enable", name=NAME)).status == 303
    assert (await sign_on(browser, provider)).status == 200
    assert await is_in(browser)


async def test_a_user_of_the_provider_has_no_password_here(both: Both) -> None:
    office, provider = both
    browser, ada = await office.browser(), await office.browser("ada")
    await sign_on(browser, provider)
    for password in ("", "!", "no password", PASSWORD):
        other = await office.browser()
        await office.clock.advance(4_000)
        assert (await other.log_in(NAME, password)).status == 401
    ada = await office.browser("ada")
    users = office.store.users
    with pytest.raises(Exception, match="has no password here"):
        await users.set_secret(NAME, "hash", "ada")
    assert "no password" not in await ada.read("/users")
    assert "single sign-on" in await ada.read("/users")


async def test_the_answer_belongs_to_the_browser_that_requested_it_and_counts_once(
    both: Both,
) -> None:
    office, provider = both
    browser, other = await office.browser(), await office.browser()
    back = provider.allow(await sent_to(browser))
    for stranger in (other, await office.browser("vera")):
        answer = await stranger.get(back)
        assert (answer.status, "did not begin in this" in await answer.text()) == (
            400,
            True,
        )
    assert not await is_in(other)
    kept = browser.client.session.cookie_jar.filter_cookies(
        browser.client.make_url("/")
    )
    assert (await browser.get(back)).status == 200
    again = {name: each.value for name, each in kept.items()}
    assert (await (await office.browser()).get(back, cookies=again)).status == 400
    assert (await browser.get(back.replace("state=", "state=x"))).status == 400
    assert (await browser.get(back.split("&")[0])).status == 400


async def test_a_login_may_take_ten_minutes(both: Both) -> None:
    office, provider = both
    for seconds, status in ((BEGUN_SECONDS - 1, 200), (BEGUN_SECONDS, 400)):
        browser = await office.browser()
        address = await sent_to(browser)
        await office.clock.advance(seconds)
        assert (await browser.get(provider.allow(address))).status == status


async def test_one_client_cannot_use_up_the_logins_of_others(both: Both) -> None:
    office, provider = both
    browser = await office.browser()
    first = provider.allow(await sent_to(browser))
    for _ in range(MAX_BEGUN_OF_CLIENT):
        await sent_to(await office.browser())
    assert (await browser.get(first)).status == 400
    logins = office.store.logins
    await logins.keep_begun("theirs", "another client", "{}")
    for _ in range(MAX_BEGUN_OF_CLIENT + 1):
        await sent_to(await office.browser())
    assert await logins.find_begun("theirs") == "{}"


async def test_the_session_is_a_new_one(both: Both) -> None:
    office, provider = both
    browser = await office.browser("vera")
    before = browser.cookie() or ""
    answer = await sign_on(browser, provider)
    line = next(
        each
        for each in answer.headers.getall("Set-Cookie")
        if each.startswith(f"{browser.cookie_name}=")
    )
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(line.split("; "))
    assert browser.cookie() != before
    other = await office.browser()
    assert (await other.get("/", cookies={browser.cookie_name: before})).status == 303


async def test_the_cookie_of_a_begun_login_is_short_lived(both: Both) -> None:
    office, _ = both
    browser = await office.browser()
    answer = await browser.get("/login/oidc")
    (line,) = answer.headers.getall("Set-Cookie")
    assert line.startswith(f"backhaul_login_{browser.client.port}=")
    assert {"HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/"} <= set(
        line.split("; ")
    )


async def test_the_login_leads_to_no_other_site(both: Both) -> None:
    office, provider = both
    for path in ("//evil.example", "https://evil.example", "/\\evil.example"):
        browser = await office.browser()
        address = await sent_to(browser, f"/login/oidc?next={path}")
        page = await (await browser.get(provider.allow(address))).text()
        assert 'content="0; url=/"' in page


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {"error": "invalid_client"}), "client_id and client_secret"),
        ((400, {"error": "invalid_grant"}), "refused the login: invalid_grant"),
        ((200, {"access_token": "t"}), "without an ID token"),
        ((500, {}), "answered 500 without an ID token"),
        ((400, {"error": "x", "error_description": SECRET}), "refused the login: x …"),
    ],
)
async def test_a_refusal_of_the_provider_is_reported(
    both: Both, answer: tuple[int, dict[str, Any]], said: str, lines: list[str]
) -> None:
    office, provider = both
    provider.answer = answer
    refused = await sign_on(await office.browser(), provider)
    page = re.sub(r"\s+", " ", await refused.text())
    assert (refused.status, said in page) == (403, True), page
    (line,) = [each for each in lines if "sign_on_failed" in each]
    assert said in line
    for secret in (SECRET, *provider.codes):
        assert secret not in f"{page} {line}"


async def test_no_token_is_logged(both: Both, lines: list[str]) -> None:
    office, provider = both
    await sign_on(await office.browser(), provider)
    await sign_on(await office.browser(), provider, aud="other")
    told = "\n".join(lines)
    assert len(provider.tokens) == 2
    assert not [each for each in (SECRET, *provider.tokens) if each in told]
    assert "the claim aud is wrong" in told


async def test_a_user_who_declines_may_try_again(both: Both) -> None:
    office, provider = both
    browser = await office.browser()
    state = parse_qs(urlsplit(await sent_to(browser)).query)["state"][0]
    refused = "error=access_denied&error_description=%3Cb%3Eno"
    answer = await browser.get(f"/login/oidc/callback?{refused}&state={state}")
    page = await answer.text()
    assert answer.status == 403
    assert "did not let you in: access_denied &lt;b&gt;no" in page
    assert (await sign_on(browser, provider)).status == 200


async def test_an_unreachable_provider_is_reported(both: Both) -> None:
    office, provider = both
    issuer = provider.issuer
    await provider.server.close()
    answer = await (await office.browser()).get("/login/oidc")
    assert answer.status == 502
    assert f"cannot be reached at {issuer}/.well-known" in await answer.text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"issuer": "https://other.example"}, "belongs to the issuer https://other"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
        ({"token_endpoint": None}, "does not answer as an identity provider does"),
    ],
)
async def test_an_unsuitable_provider_is_reported(
    both: Both, more: dict[str, Any], said: str
) -> None:
    office, provider = both
    provider.more = more
    answer = await (await office.browser()).get("/login/oidc")
    assert (answer.status, said in await answer.text()) == (502, True)


async def test_the_check_of_the_installation_reads_the_provider(both: Both) -> None:
    office, provider = both
    found = await check_provider(office.settings, office.clock)
    assert (found.state, "/login/oidc/callback" in found.said) == ("ok", True)
    provider.more = {"issuer": "https://other.example"}
    found = await check_provider(office.settings, office.clock)
    assert (found.state, "https://other.example" in found.said) == ("fail", True)


@pytest.mark.parametrize("methods", [["client_secret_post"], ["client_secret_basic"]])
async def test_the_client_authenticates_as_the_provider_requires(
    both: Both, methods: list[str]
) -> None:
    office, provider = both
    provider.methods = methods
    assert (await sign_on(await office.browser(), provider)).status == 200


async def test_a_logout_ends_the_session_and_leads_to_the_provider(both: Both) -> None:
    office, provider = both
    browser = await office.browser()
    await sign_on(browser, provider)
    found = re.search(r'name="csrf" value="([\w-]+)"', await browser.read("/"))
    assert found is not None
    browser.csrf = found[1]
    page = await (await browser.post("/logout")).text()
    target = re.search(r'content="0; url=([^"]+)"', page)
    assert target is not None
    assert target[1].startswith(f"{provider.issuer}/logout?client_id=backhaul&amp;post")
    assert not await is_in(browser)
    vera = await office.browser("vera")
    assert (await vera.post("/logout")).headers["Location"] == "/login"


async def test_passwords_can_be_turned_off(tmp_path: Path) -> None:
    async with open_both(tmp_path, VirtualClock(), passwords=False) as (office, idp):
        await office.add_users()
        browser = await office.browser()
        answer = await browser.log_in("ada")
        assert answer.status == 403
        assert "[admin] passwords is false" in await answer.text()
        page = await browser.read("/login")
        assert ('name="password"' in page, "/login/oidc?" in page) == (False, True)
        assert (await browser.get("/first")).headers["Location"] == "/login"
        assert (await browser.post("/first", token="x")).status == 403
        assert not await is_in(browser)
        assert (await sign_on(browser, idp)).status == 200


async def test_the_first_user_may_come_from_the_provider(tmp_path: Path) -> None:
    async with open_both(tmp_path, VirtualClock()) as (office, provider):
        browser = await office.browser()
        assert "There are no users yet" in await browser.read("/login")
        await browser.read("/first")
        assert (await sign_on(browser, provider, groups=["it"])).status == 200
        assert await role_of(office) is Role.ADMIN
        assert (await browser.get("/first")).status == 303
