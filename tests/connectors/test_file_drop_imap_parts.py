"""Which parts of a message are attachments, and how name and content are decoded."""

from __future__ import annotations

import base64
import io
import zipfile
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.files import FileUnreadable
from backhaul_connectors.file_drop.mail_parts import PartDecoder, decoded_text
from connectors.dropping import FULFILLMENTS
from connectors.mailing import SUPPLIER, MailDrop, mail
from scenes.dovecot import Dovecot, dovecot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = f"{FULFILLMENTS}1001,DHL,A\n"
ENCODED = base64.encodebytes(ROWS.encode()).decode()
PART = """\
From: Export <export@supplier.example>
Subject: Daily export
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b1

--b1
Content-Type: text/plain

See the attachment.
--b1
{}
Content-Transfer-Encoding: {}

{}
--b1--
"""


def zipped(name: str, content: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def server() -> Iterator[Dovecot]:
    with dovecot() as started:
        yield started


@pytest.fixture
def drop(tmp_path: Path, server: Dovecot) -> MailDrop:
    return MailDrop(tmp_path, server.settings(senders=(SUPPLIER,)), server=server)


def part(headers: str, encoding: str = "base64", content: str = ENCODED) -> bytes:
    return PART.format(headers, encoding, content).encode()


NAMED = {
    "in a header as it is": (
        'Content-Type: text/csv\nContent-Disposition: attachment; filename="{}"',
        "fulfillments.csv",
    ),
    "of the content type": ('Content-Type: text/csv; name="{}"', "fulfillments.csv"),
    "encoded word (RFC 2047)": (
        "Content-Type: text/csv\nContent-Disposition: attachment;\n"
        ' filename="=?utf-8?B?ZnVsZmlsbG1lbnRzLcO8LmNzdg==?="',
        "fulfillments-ü.csv",
    ),
    "encoded parameter (RFC 2231)": (
        "Content-Type: text/csv\nContent-Disposition: attachment;\n"
        " filename*=UTF-8''fulfillments-%C3%BC.csv",
        "fulfillments-ü.csv",
    ),
    "in pieces (RFC 2231)": (
        "Content-Type: text/csv\nContent-Disposition: attachment;\n"
        " filename*0*=UTF-8''fulfill; filename*1*=ments-%C3%BC; filename*2=.csv",
        "fulfillments-ü.csv",
    ),
    "raw UTF-8": (
        "Content-Type: text/csv\nContent-Disposition: attachment;\n"
        ' filename="fulfillments-ü.csv"',
        "fulfillments-ü.csv",
    ),
    "inline": (
        'Content-Type: text/csv\nContent-Disposition: inline; filename="{}"',
        "fulfillments.csv",
    ),
}


@pytest.mark.programs
@pytest.mark.parametrize("notation", NAMED)
async def test_a_name_is_read_in_every_notation(drop: MailDrop, notation: str) -> None:
    headers, name = NAMED[notation]
    drop.send(part(headers.format(name)))
    await drop.pull()
    (record,) = drop.records()
    assert record.locator == f"{name}:2"


CSV = 'Content-Type: text/csv; name="fulfillments.csv"'
ENCODINGS = {
    "base64": ENCODED,
    "base64 in one line": base64.b64encode(ROWS.encode()).decode(),
    "quoted-printable": ROWS.replace("DHL", "D=48=\nL"),
    "7bit": ROWS,
    "8bit": ROWS,
}


@pytest.mark.programs
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_content_is_decoded(drop: MailDrop, encoding: str) -> None:
    drop.send(part(CSV, encoding.partition(" ")[0], ENCODINGS[encoding]))
    await drop.pull()
    (record,) = drop.records()
    assert "1001,DHL,A" in record.raw


@pytest.mark.programs
@pytest.mark.parametrize(
    ("encoding", "content", "said"),
    [
        ("base64", ENCODED.strip()[:-3], "was damaged on its way"),
        ("base64", f"{ENCODED}-- \nThe mailing list\n", "was damaged on its way"),
        ("x-uuencode", "begin 644 f.csv\n", "is encoded as 'x-uuencode'"),
    ],
)
async def test_a_damaged_attachment_is_rejected_as_a_whole(
    drop: MailDrop, encoding: str, content: str, said: str
) -> None:
    drop.send(part(CSV, encoding, content))
    await drop.pull()
    assert drop.records() == []
    (reason,) = drop.reasons()
    assert said in reason
    assert "Daily export" in drop.mailbox("Rejected")
    assert drop.mailbox() == []


@pytest.mark.programs
async def test_attachments_of_a_forwarded_message_are_read(drop: MailDrop) -> None:
    rows = [f"{FULFILLMENTS}{number},DHL,A\n" for number in (1001, 1002)]
    inner = mail(("fulfillments-1.csv", rows[0]), sender="anybody@else.example")
    middle = mail(("fulfillments-2.csv", rows[1]))
    middle.add_attachment(inner)
    outer = mail()
    outer.add_attachment(middle)
    drop.send(outer)
    await drop.pull()
    names = {record.locator for record in drop.records()}
    assert names == {"fulfillments-1.csv:2", "fulfillments-2.csv:2"}
    assert len(drop.mailbox("Imported")) == 1


@pytest.mark.programs
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("winmail.dat", "Outlook's own format (TNEF)"),
        ("report.csv", "no pattern matches this name"),
    ],
)
async def test_an_attachment_that_is_not_read_is_reported(
    drop: MailDrop, name: str, said: str
) -> None:
    drop.send(mail((name, b"x\x9f\x3e\x22")))
    connector = drop.connector()
    await connector.open()
    for drop.seconds in (0, 100):
        await drop.host.pull(connector)
    (notice,) = connector.notices()
    await connector.close()
    assert f"'{name} from {SUPPLIER}' is not read: " in notice
    assert said in notice
    assert drop.mailbox() == ["Daily export"]


@pytest.mark.programs
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("fulfillments.zip", zipped("fulfillments.csv", ROWS), "ZIP archive"),
        ("fulfillments.csv", "x" * 1_500_000, "more than 1 MB"),
    ],
)
async def test_an_unreadable_attachment_is_rejected_with_the_reason(
    drop: MailDrop, name: str, content: str | bytes, said: str
) -> None:
    drop.options["max_file_mb"] = 1
    drop.send(mail((name, content)))
    await drop.pull()
    (reason,) = drop.reasons()
    assert said in reason
    assert sorted(drop.mailbox("Rejected")) == [
        "Daily export",
        "Not imported: Daily export",
    ]


@pytest.mark.programs
async def test_only_the_attachment_itself_is_fetched(
    drop: MailDrop, server: Dovecot
) -> None:
    film, huge = bytes(3_000_000), bytes(1_100_000)
    drop.options["max_file_mb"] = 1
    drop.send(
        mail(
            ("film.mp4", film),
            ("fulfillments.csv", ROWS),
            ("fulfillments-huge.csv", huge),
        )
    )
    await drop.pull()
    assert len(drop.records()) == 1
    assert server.sent_bytes() < 100_000


def test_base64_is_decoded_wherever_it_is_cut() -> None:
    content = bytes(range(256)) * 3
    encoded = base64.encodebytes(content).replace(b"\n", b"\r\n")
    for size in (1, 2, 3, 5, 76, 77, 1_000):
        decoder = PartDecoder("base64")
        pieces = [encoded[at : at + size] for at in range(0, len(encoded), size)]
        assert b"".join(map(decoder.decode, pieces)) + decoder.finish() == content


def test_quoted_printable_is_decoded_wherever_it_is_cut() -> None:
    encoded = b"a=C3=BC=\r\nb\r\n=\r\nc=3D"
    for size in range(1, len(encoded)):
        decoder = PartDecoder("quoted-printable")
        pieces = [encoded[at : at + size] for at in range(0, len(encoded), size)]
        content = b"".join(map(decoder.decode, pieces)) + decoder.finish()
        assert content == "aüb\r\nc=".encode()


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(FileUnreadable, match="'x-uue'"):
        PartDecoder("x-uue")


@pytest.mark.parametrize("text", ["=?utf-8?B?w?=", "=?nonsense?Q?x?=", "plain"])
def test_a_header_that_cannot_be_decoded_stays_as_it_is(text: str) -> None:
    assert decoded_text(text) == text
