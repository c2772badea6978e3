"""Logins at a mail server: the password is in a file or variables, and sent by TLS."""

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.mail.transports import (
    PASSWORD,
    USER,
    MailLoginError,
    SmtpLogin,
    Tls,
    login_of,
)
from scenes.certificates import of_this_machine
from scenes.loop_guard import on_purpose
from scenes.merchant import buy, outbox
from scenes.reference_shop import Shop, open_shop
from scenes.smtp_server import SmtpServer, open_smtp_server
from scenes.waiting import HANG_SECONDS

WHO = ("shop", "pa ss-wörd")


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A certificate of 127.0.0.1 that clients in this process trust."""
    certificate, context = of_this_machine(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return context


@pytest.fixture
def login(tmp_path: Path) -> Path:
    return written(tmp_path / "login", "\n".join(WHO))


def written(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


async def sent(shop: Shop, smtp: SmtpServer) -> None:
    await buy(shop, await shop.product())
    await smtp.until(2)
    assert smtp.secure == [True, True]


@pytest.mark.parametrize("wanted", ["auto", "starttls"])
async def test_a_login_behind_starttls(
    tmp_path: Path, tls: ssl.SSLContext, login: Path, wanted: Tls
) -> None:
    async with (
        open_smtp_server(tls=tls, login=WHO) as smtp,
        open_shop(
            tmp_path / "d", smtp_port=smtp.port, smtp_tls=wanted, smtp_login=login
        ) as shop,
    ):
        await sent(shop, smtp)


async def test_a_login_by_variables_and_tls_from_the_start(
    tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip((USER, PASSWORD), WHO, strict=True):
        monkeypatch.setenv(name, value)
    async with (
        open_smtp_server(tls=tls, from_the_start=True, login=WHO) as smtp,
        open_shop(tmp_path / "d", smtp_port=smtp.port, smtp_tls="tls") as shop,
    ):
        await sent(shop, smtp)


async def failed(shop: Shop) -> str:
    await buy(shop, await shop.product())
    while True:
        mails: list[Any] = await outbox(shop)
        if mails[0]["attempts"]:
            return str(mails[0]["error"])


async def test_a_wrong_password_is_an_error_without_it(
    tmp_path: Path, tls: ssl.SSLContext, login: Path
) -> None:
    async with (
        open_smtp_server(tls=tls, login=("shop", "another")) as smtp,
        open_shop(tmp_path / "d", smtp_port=smtp.port, smtp_login=login) as shop,
    ):
        assert await failed(shop) == "SMTPAuthenticationError"
        assert smtp.raw == []


async def test_no_password_in_the_clear(tmp_path: Path, login: Path) -> None:
    """A server that offers no TLS, or somebody between who took the offer away."""
    async with (
        open_smtp_server(login=WHO) as smtp,
        open_shop(tmp_path / "d", smtp_port=smtp.port, smtp_login=login) as shop,
    ):
        assert await failed(shop) == "SMTPException"
        assert b"AUTH" not in smtp.verbs
        assert smtp.raw == []


async def test_an_untrusted_certificate_stops_the_login(
    tmp_path: Path,
    tls: ssl.SSLContext,
    login: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with (
        open_smtp_server(tls=tls, login=WHO) as smtp,
        open_shop(tmp_path / "d", smtp_port=smtp.port, smtp_login=login) as shop,
    ):
        assert await failed(shop) == "SSLCertVerificationError"
        assert b"AUTH" not in smtp.verbs


@on_purpose()
def run_server(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backhaul_reference", "--data", str(folder)]
    command += ["--port", "0", "--control-port", "0", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )


def test_an_invalid_login_file_is_refused(tmp_path: Path, login: Path) -> None:
    for text, mode, said in (
        ("shop", 0o600, "two lines"),
        ("shop\n\n", 0o600, "two lines"),
        ("shop\nsecret\nmore", 0o600, "two lines"),
        ("shop\nsecret", 0o640, "chmod 600"),
    ):
        with pytest.raises(MailLoginError, match=said) as caught:
            login_of(written(tmp_path / "bad", text, mode), {})
        assert "secret" not in str(caught.value)
    with pytest.raises(MailLoginError, match="No such file"):
        login_of(tmp_path / "none", {})
    with pytest.raises(MailLoginError, match="together"):
        login_of(None, {USER: "shop"})
    assert login_of(None, {}) is None
    assert login_of(login, {USER: "x", PASSWORD: "y"}) == SmtpLogin(*WHO)
    assert WHO[1] not in repr(SmtpLogin(*WHO))


def test_the_process_reports_the_error(tmp_path: Path, login: Path) -> None:
    smtp = ("--smtp", "mail.example:25")
    for more, said in (
        (("--smtp-login", str(tmp_path / "none")), "No such file"),
        (("--smtp-login", str(login), "--smtp-tls", "off"), "needs TLS"),
    ):
        ended = run_server(tmp_path / "d", *smtp, *more)
        assert (ended.returncode, ended.stderr.count("\n")) == (78, 1)
        assert said in ended.stderr
