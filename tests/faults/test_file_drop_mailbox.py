"""Mailboxes: server or daemons killed, or connection cut; each row counts once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import CheckFailed
from connectors.dropping import FULFILLMENTS
from connectors.mailing import MailDrop, mail
from faults.test_file_drop_sftp_kills import MOST_PULLS, Cable
from faults.trials import LONG, SEED, chances, tell
from scenes.dovecot import Dovecot, dovecot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from backhaul_sdk import Connector

pytestmark = [pytest.mark.faults]

TRIALS = 50 if LONG else 4
ROWS, MESSAGES = 100, 3
KILLED = 0.2
"""How often a daemon is killed between two batches."""


@pytest.fixture
def server() -> Iterator[Dovecot]:
    with dovecot() as started:
        yield started


def fill(server: Dovecot, trial: int) -> set[str]:
    """Send messages with two attachments each; return the orders in them."""
    orders = set()
    for number in range(MESSAGES):
        files = []
        for part in range(2):
            mine = [f"{trial}-{number}-{part}-{row}" for row in range(ROWS)]
            rows = "".join(f"{order},DHL,JJD{order:>030}\n" for order in mine)
            files.append((f"fulfillments-{number}-{part}.csv", FULFILLMENTS + rows))
            orders |= set(mine)
        server.deliver(mail(*files).as_bytes())
    return orders


async def pull(connector: Connector[Any], drop: MailDrop, rng: Random) -> None:
    """Pull; a killed daemon may have stored its last batch without acknowledging it."""
    async for batch in connector.pull(drop.host.cursor):
        if rng.random() < KILLED:
            if rng.random() < 0.5:
                drop.host.commit(batch)
            return
        drop.host.commit(batch)
        await batch.ack()


async def work(drop: MailDrop, port: int, rng: Random) -> int:
    """Run one daemon for a while; return 1 if the mailbox failed, else 0."""
    drop.options["imap"] = {**drop.options["imap"], "port": port}
    connector = drop.connector()
    try:
        await connector.open()
        await pull(connector, drop, rng)
    except CheckFailed:
        return 1
    finally:
        await connector.close()
    return 0


def orders_of(drop: MailDrop) -> list[str]:
    return [record.raw.splitlines()[1].partition(",")[0] for record in drop.records()]


async def run_both(
    both: list[MailDrop], server: Dovecot, strike: Callable[[], None], rng: Random
) -> int:
    """Let two daemons work until the mailbox is empty; return the failures."""
    failures = 0
    left = rng.randrange(MESSAGES * ROWS * 100 + 5_000)
    async with Cable(server.port, left, strike) as cable:
        for _ in range(MOST_PULLS * MESSAGES):
            failures += sum(
                await asyncio.gather(*(work(drop, cable.port, rng) for drop in both))
            )
            if server.is_dead:
                server.start()
            if not server.messages("INBOX"):
                break
    return failures


@pytest.mark.parametrize("strikes", ["server killed", "line cut"])
async def test_two_daemons_on_a_mailbox_import_each_row_once(
    tmp_path: Path,
    server: Dovecot,
    strikes: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng, wrong, failures = chances(SEED), 0, 0
    strike = server.kill if strikes == "server killed" else lambda: None
    for trial in range(TRIALS):
        options = {**server.settings(), "batch_rows": 40}
        both = [MailDrop(tmp_path, dict(options), server=server) for _ in range(2)]
        expected = fill(server, trial)
        failures += await run_both(both, server, strike, rng)
        found = [order for drop in both for order in orders_of(drop)]
        lost, doubled = expected - {*found}, len(found) - len({*found})
        wrong += bool(lost or doubled or server.messages("INBOX"))
    archived = len(server.messages("Imported"))
    tell(capsys, wrong, TRIALS, f"{strikes}, noticed {failures} times")
    assert wrong == 0
    assert archived == TRIALS * MESSAGES
    assert failures >= TRIALS // 2, "the strikes came too late to matter"
