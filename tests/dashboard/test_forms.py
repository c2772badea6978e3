"""A form changes something only if it was sent from our own page."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from backhaul.admin.routes import HEADERS
from scenes.stored import lists

if TYPE_CHECKING:
    from scenes.dashboard import Office

PAUSE = "/jobs/pause"
JOB = {"job": "prune", "store": ""}


def paused(office: Office) -> bool:
    with lists(office.path) as reader:
        prune = reader.jobs().get(("prune", ""))
    return prune is not None and prune.paused_at is not None


async def test_a_form_of_ours_changes_something(office: Office) -> None:
    browser = await office.browser("otto")
    assert (await browser.post(PAUSE, **JOB)).status == 303
    assert paused(office)
    assert office.audit() == [("otto", "jobs pause", "prune")]


@pytest.mark.parametrize("token", ["", "x" * 43, "ü"])
async def test_without_the_sessions_token_nothing_changes(
    office: Office, token: str
) -> None:
    browser = await office.browser("otto")
    answer = await browser.send(PAUSE, JOB | {"csrf": token}, browser.form_headers())
    assert (answer.status, paused(office)) == (403, False)


async def test_the_token_of_another_session_is_refused(office: Office) -> None:
    browser, other = await office.browser("otto"), await office.browser("ada")
    answer = await browser.send(
        PAUSE, JOB | {"csrf": other.csrf}, browser.form_headers()
    )
    assert (answer.status, paused(office)) == (403, False)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "https://[::1", "Host": "[::1"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
async def test_a_form_of_another_site_changes_nothing(
    office: Office, said: dict[str, str]
) -> None:
    browser = await office.browser("otto")
    answer = await browser.send(PAUSE, JOB | {"csrf": browser.csrf}, said)
    assert (answer.status, paused(office)) == (403, False)
    login = {"name": "ada", "password": "correct horse battery staple"}
    assert (await browser.send("/login", login, said)).status == 403


@pytest.mark.parametrize("path", ["/", "/login", "/events/7", "/nowhere", "/healthz"])
async def test_every_response_has_the_security_headers(
    office: Office, path: str
) -> None:
    answer = await (await office.browser("vera")).get(path)
    assert HEADERS.items() <= dict(answer.headers).items()
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_policy_allows_nothing_inline_and_no_frame() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))


async def test_our_own_files_may_be_kept_and_no_others_are_given(
    office: Office,
) -> None:
    browser = await office.browser()
    kept = await browser.get("/assets/htmx.min.js")
    assert (kept.status, "immutable" in kept.headers["Cache-Control"]) == (200, True)
    for name in ("htmx.LICENSE", "..%2Fsite.py", "nothing.css"):
        assert (await browser.get(f"/assets/{name}")).status == 404


URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
UNREADABLE = [
    (f"{URLENCODED}; charset=nonsense", b"name=vera"),
    (f"{URLENCODED}; charset=utf-16", b"name=vera"),
    (f"{URLENCODED}; charset=unicode_escape", rb"name=\ud800&password=\ud800"),
    (f"{URLENCODED}; charset=punycode", b"a" * 5_000 + b"-" + b"a" * 5_000),
    (URLENCODED, b"name=\xff&password=\xfe"),
    (URLENCODED, b"&".join([b"a=1"] * 5_000)),
    (MULTIPART, b"--x\r\n"),
    (f"{MULTIPART}; boundary={'x' * 200}", b"--x\r\n"),
    (f"{MULTIPART}; boundary=x", b"no boundary at all"),
    (f"{MULTIPART}; boundary=x", b"--x\r\n\r\nnameless\r\n--x--\r\n"),
    (f"{MULTIPART}; boundary=x", b"--x\r\n" + b"A: b\r\n" * 5_000),
    (
        f"{MULTIPART}; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="name"\r\n'
        b"Content-Transfer-Encoding: nonsense\r\n\r\nvera\r\n--x--\r\n",
    ),
    (
        f"{MULTIPART}; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="name"\r\n'
        b"Content-Type: text/plain; charset=nonsense\r\n\r\nvera\r\n--x--\r\n",
    ),
    (
        f"{MULTIPART}; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff\r\n--x--\r\n',
    ),
    (
        f"{MULTIPART}; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nvera\r\n--x--\r\n',
    ),
    (
        f"{MULTIPART}; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="name"\r\n'
        b"Content-Type: text/plain; charset=unicode_escape\r\n\r\n"
        rb"\ud800" + b"\r\n--x--\r\n",
    ),
]


@pytest.mark.parametrize(("kind", "body"), UNREADABLE, ids=range(len(UNREADABLE)))
async def test_a_form_that_cannot_be_read_is_refused_and_breaks_nothing(
    office: Office, kind: str, body: bytes
) -> None:
    browser = await office.browser("otto")
    headers = browser.form_headers() | {"Content-Type": kind}
    for path in ("/login", PAUSE, "/first", "/quarantine/1/edit"):
        answer = await browser.client.post(
            path, data=body, headers=headers, allow_redirects=False
        )
        assert answer.status in {400, 413}, (path, await answer.text())
    assert (await browser.get("/")).status == 200


async def test_a_form_that_cannot_be_unpacked_is_refused(office: Office) -> None:
    browser = await office.browser()
    headers = browser.form_headers() | {
        "Content-Type": URLENCODED,
        "Content-Encoding": "gzip",
    }
    answer = await browser.client.post("/login", data=b"no gzip", headers=headers)
    assert answer.status == 400


async def test_a_form_that_is_too_large_is_answered_in_words(office: Office) -> None:
    browser = await office.browser("otto")
    body = BytesIO(f"csrf={browser.csrf}&job=".encode() + b"x" * (1 << 20))
    headers = browser.form_headers() | {"Content-Type": URLENCODED}
    answer = await browser.client.post(PAUSE, data=body, headers=headers)
    page = await answer.text()
    assert (answer.status, "larger than 1 MiB" in page) == (413, True)
    assert "Log out" in page
    assert not paused(office)
