"""A back office that accepts connections and never answers blocks nothing else."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from scenes.daemon import connected
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SILENT = """
[connectors.warehouse]
type = "file_drop"
path = "/out"
sftp_host = "127.0.0.1"
sftp_port = {port}
sftp_user = "us"
sftp_password = "p"
sftp_host_key = "SHA256:nobody"
"""


async def test_the_daemon_is_ready_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backhaul.app.store_runtime.START_SECONDS", 1.0)
    # the kernel accepts connections, but no program answers
    with socket.create_server(("127.0.0.1", 0)) as silent:
        more = SILENT.format(port=silent.getsockname()[1])
        async with open_shop(tmp_path) as shop, connected(shop, more) as (_, daemon):
            states = (await daemon._status())["connectors"]
    assert states["warehouse"]["reason"] == "the connector took longer than 1 s to open"
