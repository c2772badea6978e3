"""The pytest plugin. Every run of pytest imports it, so it imports little."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backhaul.testing import (
        DaemonUnderTest,
        Mirror,
        ReferenceServer,
        ReferenceStore,
    )


@pytest.fixture(scope="session")
def reference_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReferenceServer]:
    """A reference server for the whole session."""
    from backhaul.testing import ReferenceServer

    server = ReferenceServer(tmp_path_factory.mktemp("reference") / "data")
    yield server
    server.close()


@pytest.fixture
def reference_store(reference_server: ReferenceServer) -> ReferenceStore:
    """A new store for this test, with the demo's products and no orders."""
    name = f"test-{secrets.token_hex(4)}"
    return reference_server.create_store(name, fixture="fresh")


@pytest.fixture
def backhaul_settings() -> str:
    """TOML to add to the daemon's settings; override it to configure connectors."""
    return ""


@pytest.fixture
def backhaul_daemon(
    reference_store: ReferenceStore, backhaul_settings: str
) -> Iterator[DaemonUnderTest]:
    """A daemon on a temporary database that receives the store's webhooks."""
    from backhaul.testing import DaemonUnderTest

    daemon = DaemonUnderTest(reference_store, backhaul_settings)
    yield daemon
    daemon.close()


@pytest.fixture
def wait_until_idle(backhaul_daemon: DaemonUnderTest) -> Callable[..., Mirror]:
    """`wait_until_idle()` waits until all work is done and returns the mirror."""
    return backhaul_daemon.wait_until_idle


@pytest.fixture
def replay(tmp_path: Path) -> Callable[..., Mirror]:
    """`replay("captures/bad-day.jsonl")` folds a capture into a new mirror.

    `shuffle=SEED`, `duplicate=P`, `drop=P` and `until=TIME` are the options of
    `backhaul replay`.
    """
    from backhaul.testing.daemon import Replays

    return Replays(tmp_path)
