"""Who guesses passwords is slowed down; the person whose name it is logs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from backhaul.admin.http_security import Origin
from backhaul.admin.throttle import (
    FREE_ADDRESS,
    FREE_KNOWN_PAIR,
    FREE_NAME,
    FREE_PAIR,
    MAX_KEYS,
    MAX_WAIT_SECONDS,
    Throttle,
    throttle_key,
)
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
        await office.people()
        yield office


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


async def test_ten_guesses_of_a_stranger_do_not_lock_the_person_out(
    behind: Office,
) -> None:
    browser = await behind.browser()
    answers = [await attempt(browser, STRANGER, "a bad guess") for _ in range(10)]
    assert answers == [401] * FREE_PAIR + [429] * (10 - FREE_PAIR)
    assert await attempt(browser, STRANGER) == 429, "also with the right password"
    assert await attempt(browser, OWN) == 303


async def test_guesses_beside_a_person_at_one_address_do_not_lock_them_out(
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
                await office.people()
                assert await attempt(browser, OWN) == 303
                continue
            for _ in range(FREE_PAIR + 1):
                assert await attempt(browser, OWN, "a bad guess") == 401
            assert await attempt(browser, OWN) == 303


async def test_the_past_logins_of_somebody_removed_are_not_those_of_the_next(
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


async def test_a_proxy_that_is_not_trusted_names_nobody(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.people()
        browser = await office.browser()
        addresses = [f"203.0.113.{number}" for number in range(7)]
        answers = [await attempt(browser, one, "a bad guess") for one in addresses]
    assert answers == [401] * FREE_PAIR + [429] * 2


def test_many_addresses_slow_a_name_down_but_where_it_logged_in_before() -> None:
    throttle = Throttle(VirtualClock())
    for number in range(FREE_NAME + 1):
        throttle.failed("vera", f"10.0.{number // 250}.{number % 250}")
    assert throttle.wait("vera", OWN) > 0
    assert throttle.wait("vera", OWN, known=True) == 0
    assert throttle.wait("otto", OWN) == 0


async def test_waits_double_up_to_a_limit_and_expire() -> None:
    clock = VirtualClock()
    throttle = Throttle(clock)
    for _ in range(FREE_PAIR):
        throttle.failed("vera", STRANGER)
    waits = []
    for _ in range(12):
        throttle.failed("vera", STRANGER)
        waits.append(throttle.wait("vera", STRANGER))
    assert waits == [min(2.0**n, MAX_WAIT_SECONDS) for n in range(1, 13)]
    await clock.advance(MAX_WAIT_SECONDS)
    assert throttle.wait("vera", STRANGER) == 0


def test_even_a_known_address_does_not_guess_without_end() -> None:
    throttle = Throttle(VirtualClock())
    for _ in range(FREE_KNOWN_PAIR + 1):
        throttle.failed("vera", OWN)
    assert throttle.wait("vera", OWN, known=True) > 0


def test_a_success_clears_its_own_failures_and_not_those_of_the_address() -> None:
    throttle = Throttle(VirtualClock())
    for number in range(FREE_ADDRESS + 1):
        throttle.failed(f"name{number}", OWN)
    throttle.failed("vera", OWN)
    throttle.succeeded("vera", OWN)
    assert throttle.wait("mallory", OWN) > 0


def test_memory_is_bounded_however_many_guess() -> None:
    throttle = Throttle(VirtualClock())
    for number in range(MAX_KEYS + 50):
        throttle.failed(f"name{number}", f"address{number}")
    kept = (throttle._pairs, throttle._addresses, throttle._names)
    assert [len(each) for each in kept] == [MAX_KEYS] * 3


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
def test_only_a_trusted_proxy_says_who_calls(
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
