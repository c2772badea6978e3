"""Login: the cookie, the throttling, and forms of other sites."""

import re

import httpx
import pytest
from multidict import MultiMapping

from backhaul.admin.auth import COOKIE, HOST_BOUND
from reference_dashboard.conftest import STORE, Browser

OPENED = re.compile(r"backhaul_reference_session=[\w-]{43};")


async def test_the_cookie_is_for_this_site_and_no_script(visitor: Browser) -> None:
    page = await visitor.log_in()
    assert (page.status, page.headers["Location"]) == (303, "/dashboard")
    assert isinstance(page.headers, MultiMapping)
    cookies = page.headers.getall("Set-Cookie")
    cookie = next(one for one in cookies if OPENED.match(one))
    for word in ("HttpOnly", "SameSite=Strict", "Path=/dashboard"):
        assert word in cookie
    assert visitor.shop.running.access.control_token not in str(cookies)


async def test_a_login_at_a_daemon_of_this_machine_is_accepted_too(
    visitor: Browser,
) -> None:
    """Their addresses differ in the port only, which cookies know nothing of."""
    headers = (await visitor.log_in()).headers
    assert isinstance(headers, MultiMapping)
    own = [line.partition(";")[0] for line in headers.getall("Set-Cookie")]
    sent = "; ".join([*own, f"{COOKIE}=theirs", f"{HOST_BOUND}{COOKIE}=theirs"])
    url = visitor.shop.running.access.control_url + STORE + "/orders"
    async with httpx.AsyncClient(trust_env=False) as client:
        page = await client.get(url, headers={"Cookie": sent})
    assert page.status_code == 200


async def test_the_page_says_where_the_token_is(visitor: Browser) -> None:
    page = await visitor.get("/dashboard/login")
    file = visitor.shop.running.platform.database.with_name("access.json")
    assert f"{file}</pre>" in page.text
    assert visitor.shop.running.access.control_token in file.read_text()
    assert visitor.shop.running.access.control_token not in page.text


async def test_home_leads_to_the_first_store(browser: Browser) -> None:
    page = await browser.get("/dashboard")
    assert (page.status, page.headers["Location"]) == (303, STORE + "/orders")


async def test_wrong_tokens_are_throttled(visitor: Browser) -> None:
    for _ in range(10):
        assert (await visitor.log_in("wrong")).status == 401
    page = await visitor.log_in()
    assert page.status == 429
    assert int(page.headers["Retry-After"]) > 0
    assert (await visitor.get(STORE + "/orders")).status == 303


async def test_the_login_form_has_a_token_too(visitor: Browser) -> None:
    token = visitor.shop.running.access.control_token
    page = await visitor.ask("POST", "/dashboard/login", data={"token": token})
    assert page.status == 403


async def test_logging_out_ends_the_session(browser: Browser) -> None:
    form = {"csrf": browser.csrf}
    page = await browser.ask("POST", "/dashboard/logout", data={})
    assert page.status == 403
    page = await browser.ask("POST", "/dashboard/logout", data=form)
    assert page.status == 303
    assert (await browser.get(STORE + "/orders")).status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_forms_of_other_sites(browser: Browser, headers: dict[str, str]) -> None:
    form = {"csrf": browser.csrf, "step": "freeze"}
    page = await browser.ask("POST", STORE + "/clock", data=form, headers=headers)
    assert page.status == 403
    assert "FOREIGN_ORIGIN" in page.text
