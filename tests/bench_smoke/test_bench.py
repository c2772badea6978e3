"""The benchmarks run and their counts agree; speed is not checked here."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from backhaul.core import webhook
from bench import __main__ as command
from bench import load, orders, servers
from bench.peers import JsonServer, MissingError
from bench.results import CountsDisagreeError, Rounds, Scale, agree
from bench.webhook_peers import DebianWebhook, SyncEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIGURES = {
    "ingest": {"ratio to bare", "control, bare to bare", "ours, p99", "bare"},
    "ingest-256": {"ratio to bare", "ours, p99", "bare, p99"},
    "ingest-folding": {"ratio to bare", "longest from arrival to fold"},
    "ingest-peers": {"ratio to bare", "ours, p99"},
    "sustained": {
        "receivers = 0, ratio to bare",
        "receivers = 2, longest from arrival to fold",
    },
    "storm-of-changes": {"receivers = 2, ratio to new orders"},
    "burst": {"receivers = 1, ratio to that rate", "receivers = 1, all folded after"},
    "fold": {"ratio to plain rows", "orders folded"},
    "fold-large": {"new, rate at many to rate at few", "memory at its most, at many"},
    "start": {"start to ready", "memory when ready"},
    "history": {"start to ready", "search for one order, slowest of 200"},
    "recovery": {"kill to ready", "memory when ready"},
    "overview": {"p50 at few to p50 at many", "p99 at few", "p99 at many"},
    "pages": {"/, p99 at many to p99 at few", "/orders, p99 at many"},
    "reference-page": {"ratio to bare", "control, bare to bare", "ours, p99"},
    "reference-page-uncached": {"ratio to bare"},
    "reference-product": {"ratio to bare"},
    "reference-order": {"ratio to bare", "mails owed at the end of the load"},
    "reference-order-webhooks": {"ours, p99", "deliveries owed at the end of the load"},
    "reference-adjustment": {"ratio to bare", "ours, p99"},
    "backfill": {"ratio to fetching", "orders read"},
    "push": {
        "ratio to bare",
        "rate with a backlog to rate without",
        "rate beside a blocked lane to rate without",
    },
    "push-far": {
        "rate on kept connections to rate on new ones",
        "ratio to bare, connections kept by both",
    },
    "append-postgres": {"ratio to SQLite", "PostgreSQL"},
    "fold-postgres": {"ratio to SQLite", "PostgreSQL"},
    "fold-large-postgres": {"changed, rate at many to rate at few"},
    "idle-stores": {"busiest daemon, of a core", "connections", "transactions"},
    "scan": {"scan to fulfilled, p50", "scan to fulfilled, p99"},
    "scan-lines": {"ratio to bare", "ours", "bare"},
    "files": {"rows into records", "ratio to bare", "ratio to bare by processor time"},
    "sql-pull": {"ratio to bare", "ours, rows", "bare, rows"},
    "startup": {
        "start to ready",
        "ratio to bare by processor time",
        "idle, of a core",
        "idle, memory",
    },
    "newcomer": {"clone to fulfilled"},
}
SELDOM = {"newcomer"}
"""Fetches every package again: run it manually."""


@pytest.fixture
def scale(tmp_path_factory: pytest.TempPathFactory) -> Scale:
    # A short name: a daemon's socket lies below, and its path may have 107 bytes.
    folder = tmp_path_factory.mktemp("b")
    few = Scale(folder, rounds=1, requests=40, orders=40, connections=4, stores=5)
    return replace(few, seconds=0.2, mirrored=2_000, fixture="demo", peers=False)


# Servers are started and loaded for each row: too long for every run.
@pytest.mark.faults
@pytest.mark.parametrize("row", sorted(FIGURES.keys() - SELDOM))
def test_a_row_runs_and_its_counts_agree(row: str, scale: Scale) -> None:
    figures = command.ROWS[row](scale).figures
    assert figures.keys() >= FIGURES[row]
    assert {len(figure.values) for figure in figures.values()} == {1}


def test_every_row_is_tried() -> None:
    assert command.ROWS.keys() == FIGURES.keys()


def test_a_row_whose_counts_disagree_has_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disagree(_: Scale) -> Rounds:
        agree("rows in the inbox", 2, 1)
        raise AssertionError("two counts that differ agreed")

    monkeypatch.setitem(command.ROWS, "fold", disagree)
    report = tmp_path / "report.json"
    arguments = ["fold", "--directory", str(tmp_path), "--json", str(report)]
    ran = CliRunner().invoke(command.app, arguments)
    assert ran.exit_code == 1
    document = json.loads(report.read_text())
    failure = "rows in the inbox: expected 2, found 1"
    assert document["rows"] == {"fold": {"failed": failure}}
    assert document["machine"]["python"] == sys.version.split()[0]


def test_a_word_selects_all_rows_that_contain_it() -> None:
    wanted = command.known(["fold", "reference"])
    assert wanted == ["fold", *(row for row in FIGURES if "reference" in row)]
    assert command.known(["fold"]) == ["fold"]
    assert sorted(command.known(None)) == sorted(FIGURES)


@pytest.mark.parametrize(
    ("peer", "packages"),
    [
        (JsonServer, "nodejs npm"),
        (SyncEngine, "nodejs npm"),
        (DebianWebhook, "webhook"),
    ],
)
def test_an_unavailable_peer_is_reported_in_a_line(
    peer: Callable[[Path], object],
    packages: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=f"apt-get install {packages}"):
        peer(tmp_path)


def test_a_row_that_is_not_known_is_refused() -> None:
    assert CliRunner().invoke(command.app, ["unheard-of"]).exit_code == 2


def test_an_answer_that_is_no_200_fails_the_load(tmp_path: Path) -> None:
    forged = orders.requests(1)[0].replace(b"Ana Example", b"Eve Example")
    with servers.serving("keeping", tmp_path / "bench.db") as (port, _):
        loaded = load.send(port, [forged], connections=2)
    assert loaded.statuses == {401: 1}
    with pytest.raises(CountsDisagreeError, match="answers"):
        agree("answers", {200: 1}, dict(loaded.statuses))


def test_orders_are_distinct_signed_and_of_a_usual_size() -> None:
    bodies = list(orders.bodies(100))
    assert len(set(bodies)) == 100
    assert all(2_400 < len(body) < 2_800 for body in bodies)
    request = orders.requests(1)[0]
    assert webhook.sign(bodies[0], orders.SECRET) in request
    assert request.endswith(bodies[0])
