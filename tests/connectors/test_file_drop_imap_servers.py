"""Which servers and senders a mailbox trusts, and what is reported about others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop.locations import shared
from backhaul_connectors.file_drop.mail_senders import is_allowed, is_authenticated
from backhaul_connectors.file_drop.setting_meanings import meanings
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import CheckFailed
from connectors.dropping import FULFILLMENTS
from connectors.mailing import SUPPLIER, MailDrop, mail
from scenes.dovecot import PASSWORD, Dovecot, dovecot

if TYPE_CHECKING:
    from pathlib import Path

ROWS = f"{FULFILLMENTS}1001,DHL,A\n"


def dropped(path: Path, server: Dovecot, **imap: object) -> MailDrop:
    options = server.settings(**{"senders": (SUPPLIER,), **imap})
    return MailDrop(path, options, server=server)


@pytest.mark.programs
@pytest.mark.parametrize("tls", ["implicit", "starttls"])
async def test_a_trusted_certificate_opens_the_mailbox(
    tmp_path: Path, tls: str
) -> None:
    with dovecot("ssl = required\ndisable_plaintext_auth = yes\n") as server:
        port = server.tls_port if tls == "implicit" else server.port
        trust = server.folder / "certificate.pem"
        drop = dropped(tmp_path, server, tls=tls, port=port, ca_file=trust)
        drop.send(mail(("fulfillments.csv", ROWS)))
        await drop.pull()
        assert len(drop.records()) == 1
        untrusted = dropped(tmp_path, server, tls=tls, port=port)
        with pytest.raises(CheckFailed, match=r"is not trusted: .*imap\.ca_file"):
            await untrusted.pull()


@pytest.mark.programs
async def test_a_refused_login_is_reported_without_the_password(tmp_path: Path) -> None:
    with dovecot() as server:
        drop = dropped(tmp_path, server)
        drop.options["imap_password"] = "not-the-password"
        with pytest.raises(CheckFailed, match="refuses the login of stock@") as found:
            await drop.pull()
    assert "not-the-password" not in str(found.value)


@pytest.mark.programs
async def test_a_token_opens_the_mailbox(tmp_path: Path) -> None:
    with dovecot("auth_mechanisms = plain login xoauth2\n") as server:
        token = tmp_path / "token"
        drop = dropped(tmp_path, server, token_file=token)
        drop.options["imap_password"] = None
        with pytest.raises(CheckFailed, match="token cannot be read: No such file"):
            await drop.pull()
        token.write_text(f"{PASSWORD}\n")
        drop.send(mail(("fulfillments.csv", ROWS)))
        await drop.pull()
        assert len(drop.records()) == 1
        token.write_text("expired")
        with pytest.raises(CheckFailed, match="refuses the login"):
            await drop.pull()


BASIC = "imap_capability = IMAP4rev1 NAMESPACE LITERAL+ {}\n"


@pytest.mark.programs
async def test_a_server_that_cannot_claim_needs_a_decision(tmp_path: Path) -> None:
    with dovecot(BASIC.format("UIDPLUS MOVE")) as server:
        with pytest.raises(CheckFailed, match=r"CONDSTORE.*imap\.only_reader = true"):
            await dropped(tmp_path, server).pull()
        drop = dropped(tmp_path, server, only_reader=True)
        drop.send(mail(("fulfillments.csv", ROWS)))
        await drop.pull()
        assert len(drop.records()) == 1
        assert len(drop.mailbox("Imported")) == 1


@pytest.mark.programs
async def test_a_server_without_move_copies_and_deletes_one_message(
    tmp_path: Path,
) -> None:
    with dovecot(BASIC.format("UIDPLUS CONDSTORE")) as server:
        drop = dropped(tmp_path, server)
        server.deliver(mail(subject="marked").as_bytes(), flags=["\\Deleted"])
        drop.send(mail(("fulfillments.csv", ROWS)))
        await drop.pull()
        assert drop.mailbox("Imported") == ["Daily export"]
        with server.client() as client:
            client.select_folder("INBOX", readonly=True)
            assert len(client.search()) == 1, "only the imported message may go"


@pytest.mark.programs
async def test_a_server_without_uidplus_is_refused(tmp_path: Path) -> None:
    with (
        dovecot(BASIC.format("MOVE CONDSTORE")) as server,
        pytest.raises(CheckFailed, match="lacks UIDPLUS"),
    ):
        await dropped(tmp_path, server).pull()


@pytest.mark.programs
async def test_mailboxes_get_the_prefix_of_the_server(tmp_path: Path) -> None:
    with dovecot("namespace inbox {\nprefix = INBOX.\nseparator = .\n}\n") as server:
        drop = dropped(tmp_path, server, archive="Backhaul/Imported")
        drop.send(mail(("fulfillments.csv", ROWS)))
        await drop.pull()
        assert drop.mailbox("INBOX.Backhaul.Imported") == ["Daily export"]


@pytest.mark.programs
async def test_a_missing_mailbox_is_named(tmp_path: Path) -> None:
    with dovecot() as server:
        drop = dropped(tmp_path, server, mailbox="Suppliers")
        with pytest.raises(CheckFailed, match=r"no mailbox Suppliers.*imap\.mailbox"):
            await drop.pull()


@pytest.mark.programs
@pytest.mark.parametrize(
    ("imap", "message", "said"),
    [
        ({}, {"sender": "other@supplier.example"}, "does not allow the sender"),
        ({"senders": ("@else.example",)}, {}, "does not allow the sender"),
        ({"authentication": "mx.shop.example"}, {}, "neither DKIM nor DMARC"),
    ],
)
async def test_a_message_of_an_unknown_sender_is_left_and_reported(
    tmp_path: Path, imap: dict[str, Any], message: dict[str, str], said: str
) -> None:
    with dovecot() as server:
        drop = dropped(tmp_path, server, **imap)
        drop.send(mail(("fulfillments.csv", ROWS), **message))
        connector = drop.connector()
        await connector.open()
        for drop.seconds in (0, 100):
            await drop.host.pull(connector)
        (notice,) = connector.notices()
        await connector.close()
        assert said in notice
        assert "example" in notice
        assert drop.records() == []
        assert drop.mailbox() == ["Daily export"]


@pytest.mark.programs
async def test_an_authenticated_message_with_the_subject_is_imported(
    tmp_path: Path,
) -> None:
    passed = "mx.shop.example; dkim=pass header.d=supplier.example"
    with dovecot() as server:
        drop = dropped(
            tmp_path, server, authentication="mx.shop.example", subject="*stock list*"
        )
        for subject in ("Your Stock List", "An offer"):
            drop.send(
                mail(
                    ("fulfillments.csv", ROWS),
                    subject=subject,
                    Authentication_Results=passed,
                )
            )
        await drop.pull()
        assert len(drop.records()) == 1
        assert drop.mailbox("Imported") == ["Your Stock List"]
        assert drop.mailbox() == ["An offer"]


RESULTS = {
    "mx.me; dkim=pass header.d=supplier.example": True,
    "mx.me 1; dkim=pass (2048-bit; key) header.i=@supplier.example": True,
    "mx.me;\r\n\tspf=fail;\r\n\tdmarc=pass header.from=supplier.example": True,
    "mx.me; dkim=pass header.d=example": False,
    "mx.me; dkim=pass header.d=evil.example": False,
    "mx.me; dkim=fail header.d=supplier.example": False,
    "mx.me; dkim=pass header.d=notsupplier.example": False,
    "mx.me; spf=pass smtp.mailfrom=supplier.example": False,
    "mx.evil; dkim=pass header.d=supplier.example": False,
    "mx.me (; dkim=pass header.d=supplier.example)": False,
    "mx.me; none": False,
    "": False,
}


@pytest.mark.parametrize("results", RESULTS)
def test_only_a_passed_check_of_the_domain_counts(results: str) -> None:
    headers = f"Authentication-Results: {results}\r\n\r\n".encode()
    assert is_authenticated(headers, "mx.me", SUPPLIER) is RESULTS[results]


def test_only_the_first_header_of_the_server_counts() -> None:
    forged = (
        b"Authentication-Results: mx.me; dkim=fail header.d=supplier.example\r\n"
        b"Authentication-Results: mx.me; dkim=pass header.d=supplier.example\r\n"
    )
    assert not is_authenticated(forged, "mx.me", SUPPLIER)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("a@x.example", True),
        ("any@y.example", True),
        ("b@x.example", False),
        ("any@sub.y.example", False),
        ("", False),
    ],
)
def test_an_address_or_a_domain_is_allowed(address: str, expected: bool) -> None:
    assert is_allowed(address, ("a@x.example", "@y.example")) is expected


IMAP = {"host": "imap.example.com", "user": "me@example.com", "senders": ["@a.example"]}


def settings(**options: Any) -> Settings:
    return Settings.model_validate({"imap": IMAP, "imap_password": "x", **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"imap": {**IMAP, "senders": []}}, "senders"),
        ({"imap": {**IMAP, "senders": ["supplier"]}}, "'supplier' is not an address"),
        ({"imap": {**IMAP, "tls": "none"}}, "in plain text"),
        ({"imap": {**IMAP, "archive": "inbox"}}, "must be three mailboxes"),
        ({"imap_password": None}, "set one of imap_password and imap.token_file"),
        (
            {"imap": {**IMAP, "token_file": "/token"}},
            "set one of imap_password and imap.token_file",
        ),
        ({"path": "/srv"}, "imap excludes path"),
        ({"exports": "out"}, "imap excludes exports"),
        ({"imap": None, "path": "/srv"}, "imap is missing"),
        ({"imap": None, "imap_password": None}, "path is missing"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        settings(**options)


def test_two_connections_never_share_a_mailbox() -> None:
    one = settings(fulfillments="a*.csv")
    other = settings(fulfillments="b*.csv")
    assert shared(one, other, False) == "messages in INBOX of me@example.com"
    elsewhere = settings(imap={**IMAP, "mailbox": "Suppliers"})
    assert shared(one, elsewhere, False) == ""


def test_a_setting_that_trusts_every_sender_says_so() -> None:
    said = " ".join(meanings(settings(imap={**IMAP, "senders": ["*"]})))
    assert "attachments from anybody who writes to me@example.com" in said
    assert "it can be forged" in " ".join(meanings(settings()))
