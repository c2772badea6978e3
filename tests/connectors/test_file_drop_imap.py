"""Messages in a mailbox are imported, archived, rejected or left."""

from __future__ import annotations

import asyncio
from email import message_from_bytes
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Bad, CheckFailed, Fulfillment, Rejection, StockAdjustment
from connectors.dropping import FULFILLMENTS, STOCK_DELTAS
from connectors.mailing import SUPPLIER, MailDrop, mail
from scenes.dovecot import Dovecot, dovecot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs

ROWS = f"{FULFILLMENTS}1001,DHL,A\n1002,DHL,B\n"
DELTAS = f"{STOCK_DELTAS}LS-S,-2,damaged\n"


@pytest.fixture
def server() -> Iterator[Dovecot]:
    with dovecot() as started:
        yield started


@pytest.fixture
def drop(tmp_path: Path, server: Dovecot) -> MailDrop:
    return dropped(tmp_path, server)


def dropped(path: Path, server: Dovecot, **imap: object) -> MailDrop:
    """Return the mailbox as one installation reads it."""
    options = server.settings(senders=(SUPPLIER,), **imap)
    return MailDrop(path, options, server=server)


async def test_an_imported_message_is_archived(drop: MailDrop) -> None:
    drop.send(mail(("fulfillments.csv", ROWS)))
    await drop.pull()
    assert len(drop.records()) == 2
    assert (drop.mailbox(), drop.mailbox("Imported")) == ([], ["Daily export"])


async def test_all_attachments_are_imported_before_the_message_is_archived(
    drop: MailDrop,
) -> None:
    drop.send(mail(("fulfillments.csv", ROWS), ("stock-deltas.csv", DELTAS)))
    connector = drop.connector()
    await connector.open()
    seen = []
    async for batch in connector.pull(None):
        drop.host.commit(batch)
        seen.append(len(drop.mailbox()))
        await batch.ack()
    await connector.close()
    assert len(drop.records()) == 3
    assert seen == [1, 1], "it was moved before the last attachment"
    assert (drop.mailbox(), len(drop.mailbox("Imported"))) == ([], 1)


async def test_a_message_with_an_unusable_attachment_is_rejected_with_the_reason(
    drop: MailDrop,
) -> None:
    drop.send(
        mail(("fulfillments.csv", ROWS), ("stock-deltas.csv", "what,ever\n1,2\n"))
    )
    await drop.pull()
    assert [r.order for r in drop.records() if isinstance(r, Fulfillment)] == [
        "1001",
        "1002",
    ]
    (reason,) = drop.reasons()
    assert "moved to the mailbox Rejected" in reason
    assert sorted(drop.mailbox("Rejected")) == [
        "Daily export",
        "Not imported: Daily export",
    ]
    text = next(
        message.get_payload(decode=True)
        for message in map(message_from_bytes, rejected(drop))
        if message["X-Backhaul-Reason"]
    )
    assert b"stock-deltas.csv: " in text
    assert (drop.mailbox(), drop.mailbox("Imported")) == ([], [])


def rejected(drop: MailDrop) -> list[bytes]:
    assert drop.server is not None
    return drop.server.messages("Rejected")


async def test_rows_that_cannot_be_used_are_one_message_for_each_file(
    drop: MailDrop,
) -> None:
    for number in (1, 2):
        drop.send(mail(("fulfillments.csv", f"{ROWS},DHL,{number}\n")))
        await drop.pull()
        await drop.report()
    (message,) = map(message_from_bytes, rejected(drop))
    assert message["Subject"] == "Rows that cannot be used: fulfillments.rejected.csv"
    *_, attachment = message.walk()
    content = attachment.get_payload(decode=True)
    assert isinstance(content, bytes)
    assert content.count(b",DHL,") == 2
    assert len(drop.mailbox("Imported")) == 2


async def test_two_daemons_on_one_mailbox_read_each_attachment_once(
    tmp_path: Path, server: Dovecot
) -> None:
    both = [dropped(tmp_path, server), dropped(tmp_path, server)]
    for number in range(30):
        rows = f"{FULFILLMENTS}{number},DHL,{number}\n"
        both[0].send(mail((f"fulfillments-{number}.csv", rows)))
    connectors = [drop.connector() for drop in both]
    for connector in connectors:
        await connector.open()
    for _ in range(3):
        await asyncio.gather(
            *(
                drop.host.pull(connector)
                for drop, connector in zip(both, connectors, strict=True)
            )
        )
    for connector in connectors:
        await connector.close()
    one, other = (set(drop.host.records) for drop in both)
    assert one & other == set(), "an attachment was imported twice"
    assert len(one | other) == 30, "an attachment was lost"
    assert one, "one daemon had no chance"
    assert other, "the other daemon had no chance"
    assert len(both[0].mailbox("Imported")) == 30


async def test_a_single_one_of_many_concurrent_claims_wins(server: Dovecot) -> None:
    from backhaul_connectors.file_drop.imap_connection import ImapConnection
    from backhaul_connectors.file_drop.settings import Settings

    settings = Settings.model_validate(server.settings())
    assert settings.imap is not None
    lines = [ImapConnection(settings, settings.imap) for _ in range(4)]
    for _ in range(25):
        server.deliver(mail(("fulfillments.csv", ROWS)).as_bytes())

    def claim_all(owner: str) -> Any:
        def work(session: Any) -> list[int]:
            session.enter("INBOX")
            return [uid for uid in session.search() if session.claim(uid, owner)]

        return work

    won = await asyncio.gather(
        *(line.run(claim_all(str(number))) for number, line in enumerate(lines))
    )
    for line in lines:
        await line.close()
    claimed = [uid for each in won for uid in each]
    assert sorted(claimed) == list(range(1, 26))


async def test_a_claimed_message_stays_with_its_database_after_a_kill(
    tmp_path: Path, server: Dovecot
) -> None:
    drop, other = dropped(tmp_path, server), dropped(tmp_path, server)
    drop.send(mail(("fulfillments.csv", ROWS)))
    killed = drop.connector()
    await killed.open()
    async for _ in killed.pull(None):
        break  # claimed and read, and nothing is stored
    await killed.close()

    await other.pull()
    assert other.records() == []
    await drop.pull()
    assert len(drop.records()) == 2
    assert drop.mailbox() == []


async def test_a_message_that_another_installation_keeps_is_reported(
    tmp_path: Path, server: Dovecot
) -> None:
    server.deliver(
        mail(("fulfillments.csv", ROWS)).as_bytes(), flags=["backhaul-another"]
    )
    drop = dropped(tmp_path, server)
    connector = drop.connector()
    await connector.open()
    await drop.host.pull(connector)
    drop.seconds += 100
    await drop.host.pull(connector)
    (notice,) = connector.notices()
    await connector.close()
    assert "another installation of Backhaul claimed the message" in notice
    assert drop.records() == []


async def test_other_numbers_of_the_same_messages_change_nothing(
    drop: MailDrop, server: Dovecot
) -> None:
    drop.send(mail(("stock-deltas.csv", DELTAS), ("stock-deltas-2.csv", "no,use\n")))
    connector = drop.connector()
    await connector.open()
    async for batch in connector.pull(None):
        drop.host.commit(batch)
        break  # stored, and not yet acknowledged
    server.kill()
    server.renumber()
    server.start()
    with pytest.raises(CheckFailed, match="broke"):
        await drop.host.pull(connector)
    await drop.host.pull(connector)
    await connector.close()
    assert len(drop.records()) == 1
    assert drop.mailbox() == []
    assert len(drop.mailbox("Rejected")) == 2


async def test_a_message_that_came_twice_is_imported_once(drop: MailDrop) -> None:
    for _ in range(2):
        drop.send(mail(("stock-deltas.csv", DELTAS), Message_ID="<1@supplier.example>"))
    await drop.pull()
    assert len(drop.records()) == 1
    assert (drop.mailbox(), len(drop.mailbox("Imported"))) == ([], 2)


async def test_cumulative_stock_changes_continue_after_the_rows_of_yesterday(
    drop: MailDrop,
) -> None:
    drop.send(mail(("stock-deltas.csv", DELTAS)))
    await drop.pull()
    drop.send(mail(("stock-deltas.csv", f"{DELTAS}LS-M,4,received\n")))
    await drop.pull()
    skus = [r.sku for r in drop.records() if isinstance(r, StockAdjustment)]
    assert skus == ["LS-S", "LS-M"]


async def test_an_operator_applies_a_rejected_attachment(drop: MailDrop) -> None:
    for name in ("stock-deltas-a.csv", "stock-deltas-b.csv"):
        drop.send(mail((name, DELTAS)))
        await drop.pull()
    assert len(drop.records()) == 1
    (bad,) = drop.host.bad.values()
    assert bad.can_apply
    asked = Rejection(bad.key, bad.raw, bad.reason, bad.locator)
    connector = drop.connector()
    await connector.open()
    async for batch in connector.apply(asked, drop.host.cursor):
        drop.host.commit(batch)
        await batch.ack()
    await connector.close()
    assert len(drop.records()) == 2
    assert len(drop.mailbox("Imported")) == 2
    assert drop.mailbox("Rejected") == ["Not imported: Daily export"]


async def test_a_rejected_attachment_that_is_gone_is_named(
    drop: MailDrop, server: Dovecot
) -> None:
    for name in ("stock-deltas-a.csv", "stock-deltas-b.csv"):
        drop.send(mail((name, DELTAS)))
        await drop.pull()
    (bad,) = drop.host.bad.values()
    with server.client() as client:
        client.select_folder("Rejected")
        client.delete_messages(client.search())
        client.expunge()
    asked = Rejection(bad.key, bad.raw, bad.reason, bad.locator)
    connector = drop.connector()
    await connector.open()
    (batch,) = [batch async for batch in connector.apply(asked, drop.host.cursor)]
    await connector.close()
    (gone,) = batch.records
    assert isinstance(gone, Bad)
    assert "no file in the mailbox Rejected has its content" in gone.reason


async def test_an_archived_message_that_is_put_back_changes_nothing(
    drop: MailDrop, server: Dovecot
) -> None:
    drop.send(mail(("stock-deltas.csv", DELTAS)))
    await drop.pull()
    with server.client() as client:
        client.select_folder("Imported")
        client.move(client.search(), "INBOX")
    await drop.pull()
    assert len(drop.records()) == 1
    assert drop.mailbox() == []


BOUNCE = """\
From: MAILER-DAEMON@supplier.example
Subject: Undelivered mail
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=b1

--b1
Content-Type: text/plain

Your message could not be delivered.
--b1
Content-Type: message/rfc822

{}
--b1--
"""


async def test_messages_without_files_are_left_alone_in_silence(drop: MailDrop) -> None:
    original = mail(("fulfillments.csv", ROWS), subject="the original")
    drop.send(BOUNCE.format(original).replace("MAILER-DAEMON", "export").encode())
    drop.send(mail(subject="Out of office", Auto_Submitted="auto-replied"))
    drop.seconds = 100
    for _ in range(2):
        await drop.pull()
    assert drop.mailbox() == ["Undelivered mail", "Out of office"]
    assert (drop.records(), drop.reasons(), drop.notices) == ([], [], [])
