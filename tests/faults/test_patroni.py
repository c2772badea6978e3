"""Two daemons on servers managed by Patroni, whose primary is lost."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from faults.cluster_floor import Floor, close
from faults.trials import chances, tell
from scenes.cluster import cluster
from scenes.patroni import BINARIES_16, TTL_SECONDS, patroni
from scenes.postgres import BINARIES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(1_800)]
CLOCK = SystemClock()


@pytest.mark.parametrize(
    ("binaries", "spool"),
    [(BINARIES, "false"), (BINARIES_16, "false"), (BINARIES, "true")],
    ids=["18", "16", "18-spool"],
)
async def test_a_failover_of_patroni_loses_and_doubles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], binaries: Path, spool: str
) -> None:
    environ = {"BACKHAUL_CLUSTER__SPOOL": spool}
    with patroni(binaries) as servers:
        async with cluster(tmp_path, 2, CLOCK, servers.nodes, environ) as running:
            floor = Floor(running, running.stores[0], chances(), CLOCK)
            async with floor.at_work():
                await running.until_whole()
                lost = await asyncio.to_thread(servers.primary)
                assert lost is not None
                servers.kill_machine(lost)
                began = time.monotonic()
                running.balancer.restart_measurement()
                sent_after = await running.sent_after(began + 1) - began
                await running.until_whole()
            (ledger,) = await close([floor])
            refused = len(running.balancer.refusals)
            silence = running.balancer.longest_silence
    told = (
        f"ttl {TTL_SECONDS} s, spool {spool}: no webhook kept for {silence:.1f} s,"
        f" {refused} refused; no command sent for {sent_after:.1f} s; {ledger}"
    )
    tell(capsys, len(ledger.faults()), 1, told)
    assert ledger.faults() == [], "\n".join(ledger.faults())
