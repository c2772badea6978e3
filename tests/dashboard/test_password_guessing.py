"""Guessing passwords is throttled, and does not lock out the real user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from backhaul.admin.accounts import (
    FREE_ADDRESS,
    FREE_KNOWN_PAIR,
    FREE_NAME,
    FREE_PAIR,
    MAX_WAIT_SECONDS,
    Throttle,
    throttle_key,
)
from backhaul.admin.context import Origin
from backhaul.store.operators import MAX_KEYS, RESET_SECONDS, MemoryLogins
from scenes.clock import VirtualClock
from scenes.dashboard import PASSWORD, open_office

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.dashboard import Browser, Office

STRANGER, OWN, OTHER = "203.0.113.7", "198.51.100.4", "192.0.2.99"


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard behind a trusted proxy, which says who calls."""
    async with open_office(tmp_path, trusted_proxies=["127.0.0.1"]) as office:
        await office.add_users()
        yield office


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def throttle(clock: VirtualClock) -> Throttle:
    return Throttle(MemoryLogins(clock))


async def attempt(
    browser: Browser, address: str, password: str = PASSWORD, name: str = "vera"
) -> int:
    headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
    form = {"name": name, "password": password}
    origin = f"https://{browser.client.host}:{browser.client.port}"
    own = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    answer = await browser.client.post(
        "/login", data=form, headers=headers | own, allow_redirects=False
    )
    return int(answer.status)


async def test_ten_guesses_from_another_address_do_not_lock_the_user_out(
    behind: Office,
) -> None:
    browser = await behind.browser()
    answers = [await attempt(browser, STRANGER, "a bad guess") for _ in range(10)]
    assert answers == [401] * FREE_PAIR + [429] * (10 - FREE_PAIR)
    assert await attempt(browser, STRANGER) == 429, "also with the right password"
    assert await attempt(browser, OWN) == 303


async def test_guesses_from_the_address_of_a_user_do_not_lock_them_out(
    behind: Office,
) -> None:
    """An office, or a provider, may have one address for many."""
    browser = await behind.browser()
    assert await attempt(browser, OWN) == 303
    for number in range(FREE_ADDRESS + 1):
        await attempt(browser, OWN, "a bad guess", f"name{number}")
    for _ in range(10):
        assert await attempt(browser, OWN, "a bad guess") == 401
    assert await attempt(browser, OWN, name="otto") == 429, "never logged in here"
    assert await attempt(browser, OWN) == 303


async def test_a_past_login_is_known_after_a_restart(tmp_path: Path) -> None:
    for life in range(2):
        async with open_office(tmp_path, trusted_proxies=["127.0.0.1"]) as office:
            browser = await office.browser()
            if not life:
                await office.add_users()
                assert await attempt(browser, OWN) == 303
                continue
            for _ in range(FREE_PAIR + 1):
                assert await attempt(browser, OWN, "a bad guess") == 401
            assert await attempt(browser, OWN) == 303


async def test_a_new_user_does_not_inherit_logins_of_a_removed_one(
    behind: Office,
) -> None:
    browser = await behind.browser()
    assert await attempt(browser, OWN) == 303
    vera = await behind.store.users.find("vera")
    assert vera is not None
    await behind.store.users.remove("vera", "the test")
    await behind.clock.advance(60)
    await behind.store.users.add("vera", vera.role, vera.secret, "the test")
    answers = [await attempt(browser, OWN, "a bad guess") for _ in range(7)]
    assert answers == [401] * FREE_PAIR + [429] * 2


async def test_an_untrusted_proxy_cannot_name_a_client(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.add_users()
        browser = await office.browser()
        addresses = [f"203.0.113.{number}" for number in range(7)]
        answers = [await attempt(browser, one, "a bad guess") for one in addresses]
    assert answers == [401] * FREE_PAIR + [429] * 2


async def count(throttle: Throttle, name: str, address: str, times: int) -> None:
    for _ in range(times):
        assert await throttle.attempt(name, address) == 0


async def test_many_addresses_slow_a_name_down_but_where_it_logged_in_before(
    throttle: Throttle,
) -> None:
    for number in range(FREE_NAME):
        await count(throttle, "vera", f"10.0.{number // 250}.{number % 250}", 1)
    assert await throttle.attempt("vera", OWN) > 0
    assert await throttle.attempt("vera", OWN, known=True) == 0
    assert await throttle.attempt("otto", OWN) == 0


async def test_waits_double_up_to_a_limit_and_expire(
    throttle: Throttle, clock: VirtualClock
) -> None:
    await count(throttle, "vera", STRANGER, FREE_PAIR)
    waits = []
    for _ in range(12):
        waits.append(await throttle.attempt("vera", STRANGER))
        await clock.advance(waits[-1])
        assert await throttle.attempt("vera", STRANGER) == 0
    assert waits == [min(2.0**n, MAX_WAIT_SECONDS) for n in range(12)]
    await clock.advance(RESET_SECONDS + 1)
    await count(throttle, "vera", STRANGER, FREE_PAIR)
    assert await throttle.attempt("vera", STRANGER) == 1


async def test_even_a_known_address_does_not_guess_without_end(
    throttle: Throttle,
) -> None:
    for _ in range(FREE_KNOWN_PAIR):
        assert await throttle.attempt("vera", OWN, known=True) == 0
    assert await throttle.attempt("vera", OWN, known=True) > 0


async def test_a_success_clears_its_own_failures_and_not_those_of_the_address(
    throttle: Throttle,
) -> None:
    for number in range(FREE_ADDRESS - 1):
        await count(throttle, f"name{number}", OWN, 1)
    await count(throttle, "vera", OWN, 1)
    await throttle.succeeded("vera", OWN)
    await count(throttle, "mallory", OWN, 1)
    assert await throttle.attempt("otto", OWN) > 0


async def test_the_right_token_does_not_clear_the_failures_of_the_address(
    throttle: Throttle,
) -> None:
    await count(throttle, "", OWN, FREE_ADDRESS - 1)
    await count(throttle, "", OWN, 1)
    await throttle.succeeded("", OWN)
    await count(throttle, "", OWN, 1)
    assert await throttle.attempt("", OWN) > 0


async def test_memory_is_bounded_however_many_guess() -> None:
    logins = MemoryLogins(VirtualClock())
    throttle = Throttle(logins)
    for number in range(MAX_KEYS // 3 + 50):
        await throttle.attempt(f"name{number}", f"address{number}")
    assert len(logins._failures) == MAX_KEYS


@pytest.mark.parametrize(
    ("address", "counts_as"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("", ""),
        ("x" * 9_000, "x" * 64),
    ],
)
def test_an_ipv6_address_counts_as_its_network(address: str, counts_as: str) -> None:
    assert throttle_key(address) == counts_as


@pytest.mark.parametrize(
    ("peer", "told", "address"),
    [
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["1.1.1.1", "203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["203.0.113.7, 10.0.0.5"], "203.0.113.7"),
        ("127.0.0.1", ["10.0.0.5"], "10.0.0.5"),
        ("127.0.0.1", ["203.0.113.7:4711"], "203.0.113.7"),
        ("127.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("127.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", ["1.1.1.1, "], "127.0.0.1"),
        ("::ffff:127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("192.0.2.1", ["203.0.113.7"], "192.0.2.1"),
    ],
)
def test_only_a_trusted_proxy_names_the_client(
    peer: str, told: list[str], address: str
) -> None:
    headers = CIMultiDict([("X-Forwarded-For", each) for each in told])
    request = make_mocked_request("GET", "/", headers=headers)
    request = request.clone(remote=peer)
    assert Origin(None, ["127.0.0.1", "10.0.0.0/8"]).address(request) == address


HSTS = "Strict-Transport-Security"


@pytest.mark.parametrize(
    ("scheme", "is_told"), [("https", True), ("http", False), ("", False)]
)
@pytest.mark.parametrize("path", ["/login", "/", "/healthz", "/assets/nothing"])
async def test_https_responses_have_an_hsts_header(
    behind: Office, path: str, scheme: str, is_told: bool
) -> None:
    browser = await behind.browser()
    said = {"X-Forwarded-Proto": scheme} if scheme else {}
    answer = await browser.client.get(path, headers=said, allow_redirects=False)
    assert (HSTS in answer.headers) is is_told


async def test_an_untrusted_proxy_causes_no_hsts_header(
    tmp_path: Path,
) -> None:
    async with open_office(tmp_path) as office:
        browser = await office.browser()
        answer = await browser.client.get(
            "/login", headers={"X-Forwarded-Proto": "https"}
        )
        assert HSTS not in answer.headers


async def test_our_https_address_has_an_hsts_header_without_a_proxy_header(
    tmp_path: Path,
) -> None:
    url = "https://backhaul.example"
    async with open_office(tmp_path, url=url) as office:
        browser = await office.browser()
        for host, is_told in (("backhaul.example", True), ("127.0.0.1", False)):
            answer = await browser.client.get("/login", headers={"Host": host})
            assert (HSTS in answer.headers) is is_told
