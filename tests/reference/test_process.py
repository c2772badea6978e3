"""The process: its start, its files, its end, and what survives a kill."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.platform.state.webhook_outbox import TOPICS
from scenes.reference_process import HttpAnswer, ReferenceProcess, ask, reference
from scenes.reference_shop import Receiver, cart
from scenes.waiting import HANG_SECONDS


def run_server(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backhaul_reference", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )


def test_access_file_and_restart(tmp_path: Path) -> None:
    with reference(tmp_path) as server:
        file = tmp_path / "access.json"
        assert file.stat().st_mode & 0o777 == 0o600
        first = json.loads(file.read_text())
        product = server.storefront("GET", "/products").data()[0]
        server.storefront("POST", "/orders", cart(product))
        before = server.state()
        server.restart()
        assert json.loads(file.read_text()) == first
        assert server.state() == before
        assert server.v1("GET", "/store").status == 200
        assert server.terminate() == 0


def test_every_store_is_in_the_access_file(tmp_path: Path) -> None:
    with reference(tmp_path, fixture="empty") as server:
        for name in ("second", "third"):
            made = server.control("POST", "/stores", {"subdomain": name}).data()
            assert listed(tmp_path)[name] == (made["id"], made["apiKey"])
        before = listed(tmp_path)
        assert list(before) == ["demo", "second", "third"]
        server.kill()
        server.restart()
        assert listed(tmp_path) == before
        revoke(server, "second")
        server.restart()
        after = listed(tmp_path)
        assert after["second"] != before["second"]
        assert {**after, "second": before["second"]} == before
        assert keyed(server, "second", "GET", "/store").data()["subdomain"] == "second"
        server.control("POST", "/reset")
        assert list(listed(tmp_path)) == ["demo"]


def listed(folder: Path) -> dict[str, tuple[str, str]]:
    stores = json.loads((folder / "access.json").read_text())["stores"]
    return {one["subdomain"]: (one["id"], one["api_key"]) for one in stores}


def keyed(
    server: ReferenceProcess, store: str, method: str, path: str, body: Any = None
) -> HttpAnswer:
    headers = {"Authorization": f"Bearer {listed(server.data_dir)[store][1]}"}
    return ask(method, f"{server.public_url}/api/v1{path}", headers, body)


def revoke(server: ReferenceProcess, store: str) -> None:
    """Revoke the key that access.json shows; the ledger knows its id."""
    product = {"title": "Lamp", "price": "1.00", "stock": 1}
    keyed(server, store, "POST", "/products", product)
    row = keyed(server, store, "GET", "/inventory/history").data()[0]
    key_id = row["source"]["id"]
    assert server.control("DELETE", f"/stores/{store}/keys/{key_id}").status == 200


def test_a_port_in_use_is_reported_plainly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run_server("--data", str(tmp_path), "--port", port)
    assert result.returncode == 69
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert f"127.0.0.1:{port}" in lines[0]


def test_a_folder_in_use_is_reported_plainly(tmp_path: Path) -> None:
    with reference(tmp_path):
        result = run_server(
            "--data", str(tmp_path), "--port", "0", "--control-port", "0"
        )
    assert (result.returncode, result.stderr.count("\n")) == (75, 1)


@pytest.mark.parametrize("bad", [["--port", "99999"], ["--retry-schedule", "x"]])
def test_usage_errors(tmp_path: Path, bad: list[str]) -> None:
    result = run_server("--data", str(tmp_path), *bad)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_no_secret_is_at_rest_or_in_the_log(tmp_path: Path) -> None:
    with reference(tmp_path, extra=["--log-level", "debug"]) as server:
        product = server.storefront("GET", "/products").data()[0]
        tokens = []
        for number in range(3):
            # With a key, so that the answer is kept for a replay.
            headers = {"x-subdomain": "demo", "Idempotency-Key": f"k{number}"}
            url = f"{server.public_url}/storefront/orders"
            placed = ask("POST", url, headers, cart(product)).data()
            tokens.append(placed["trackingToken"])
            server.storefront("GET", f"/orders/track/{tokens[-1]}")
            server.storefront("POST", f"/orders/track/{tokens[-1]}")
            server.storefront("GET", f"/orders/track/{tokens[-1]}/nothing")
        key = server.store().api_key
        files = [one for one in tmp_path.iterdir() if one.name != "access.json"]
        server.terminate()
        found = {one.name: one.read_bytes() for one in files if one.is_file()}
        for secret in (*tokens, key, server.control_token):
            assert not [name for name, text in found.items() if secret.encode() in text]
        log = server.log.read_text()
        assert "route=/storefront/orders/track/{token}" in log


FAULTS = {
    "http": [
        {"fault": "drop-after-commit", "method": "POST", "probability": 0.05},
        {"fault": "5xx", "probability": 0.05},
        {"fault": "truncate", "route": "/storefront/orders", "probability": 0.05},
        {"fault": "refuse", "probability": 0.02},
    ],
    "webhooks": [
        {"fault": "duplicate", "probability": 0.1},
        {"fault": "reorder", "probability": 0.1, "seconds": 0.05},
        {"fault": "delay", "probability": 0.1, "seconds": 0.05},
        {"fault": "corrupt-signature", "probability": 0.1},
    ],
}


@pytest.mark.parametrize("faults", [{}, FAULTS], ids=["calm", "faulty"])
async def test_kill_under_load_loses_nothing(
    tmp_path: Path, receiver: Receiver, faults: Any
) -> None:
    """Whatever was acknowledged is there, and every recorded event arrives."""
    with reference(tmp_path, fixture="fresh") as server:
        body = {"address": receiver.url, "topics": list(TOPICS)}
        start = server.state()["sequence"]
        assert server.v1("POST", "/webhooks", body).status == 201
        acknowledged: list[str] = []
        for seed in range(3):
            server.control("PUT", "/stores/demo/faults", {"seed": seed, **faults})
            work = asyncio.to_thread(load, server, acknowledged)
            task = asyncio.create_task(work)
            await receiver.until(len(receiver.received) + 60)
            server.kill()
            await task
            await asyncio.to_thread(server.restart)
        state = server.state()
        assert len(acknowledged) > 20
        assert set(acknowledged) <= {order["id"] for order in state["orders"]}
        check_outbox(server, state, start)
        await all_arrived(receiver, set(range(start + 1, state["sequence"] + 1)))


def load(server: ReferenceProcess, acknowledged: list[str]) -> None:
    """Place orders from several threads until the server is gone."""
    products = server.state()["products"]

    def shop(first: int) -> None:
        for number in range(first, 10_000, 4):
            try:
                product = products[number % 24]
                reply = server.storefront("POST", "/orders", cart(product))
            except (urllib.error.URLError, HTTPException, OSError):
                if server.process.poll() is not None:
                    return
                continue
            if reply.status == 201:
                acknowledged.append(reply.data()["id"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(shop, range(4)))


def check_outbox(server: ReferenceProcess, state: Any, start: int) -> None:
    """One customer, and for each order one level update and one creation."""
    expected = 2 * len(state["orders"]) + len(state["customers"])
    assert state["sequence"] - start == expected
    sums: dict[str, int] = {}
    for row in state["history"]:
        sums[row["variantId"]] = sums.get(row["variantId"], 0) + row["adjustment"]
    assert sums == {one["variantId"]: one["stock"] for one in state["levels"]}


async def all_arrived(receiver: Receiver, wanted: set[int]) -> None:
    while True:
        got = {json.loads(one.body)["sequence"] for one in receiver.received}
        if wanted <= got:
            return
        await receiver.until(len(receiver.received) + 1)


def test_the_package_imports_nothing_of_ours() -> None:
    root = Path(__file__).parents[2] / "daemon" / "backhaul_reference"
    pattern = re.compile(r"^\s*(?:from|import) backhaul(?!_reference\b)", re.MULTILINE)
    assert not [
        str(file) for file in root.rglob("*.py") if pattern.search(file.read_text())
    ]
