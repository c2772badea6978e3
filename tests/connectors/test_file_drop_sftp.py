"""file_drop with OpenSSH, and with malicious servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import asyncssh
import pytest

from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import CheckFailed, Rejection, StockAdjustment
from backhaul_sdk.testing import MemoryHost, PullContract
from connectors.dropping import (
    FULFILLMENTS,
    STOCK_DELTAS,
    Drop,
    Killed,
    swap_while_it_is_archived,
)
from connectors.test_file_drop_contract import DropBench
from connectors.test_file_drop_exports import ExportBench, Exports
from scenes.sshd import Sshd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from backhaul_sdk import Connector

ROWS = f"{FULFILLMENTS}1001,DHL,A\n1002,DHL,B\n"
PASSWORD = "a-password-that-must-not-show"


class SftpBench(Killed, DropBench):
    """A folder that couriers reach by SFTP, and so do we."""

    def __init__(self, path: Path, server: Sshd) -> None:
        super().__init__(path, "fulfillments", "csv")
        self._server = server
        self._drop.options |= server.settings()
        self.secrets = (str(server.settings()["sftp_key"]).splitlines()[1],)
        self.made: list[Connector[Any]] = []

    def connector(self) -> FileDrop:
        self.made.append(found := super().connector())
        return found


class SftpExports(Killed, ExportBench):
    """A folder from which an ERP takes its files by SFTP."""

    def __init__(self, path: Path, server: Sshd) -> None:
        super().__init__(path, server.settings())
        self._server = server
        self.secrets = (str(server.settings()["sftp_key"]).splitlines()[1],)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    started = Sshd(tmp_path_factory.mktemp("sshd"))
    started.start()
    yield started
    started.kill()


@pytest.mark.programs
class TestSftp(PullContract):
    """Files are taken from a real server."""

    @pytest.fixture
    async def bench(self, tmp_path: Path, server: Sshd) -> AsyncIterator[SftpBench]:
        made = SftpBench(tmp_path, server)
        yield made
        for connector in made.made:
            await connector.close()


@pytest.mark.programs
class TestSftpExports(Exports):
    """News is put onto a real server."""

    @pytest.fixture
    async def bench(self, tmp_path: Path, server: Sshd) -> AsyncIterator[SftpExports]:
        made = SftpExports(tmp_path, server)
        yield made
        await made.close()


@pytest.mark.programs
async def test_a_file_swapped_while_it_is_archived_stays(
    tmp_path: Path, server: Sshd
) -> None:
    same_size = f"{FULFILLMENTS}1002,DHL,B\n"
    await swap_while_it_is_archived(Drop(tmp_path, server.settings()), same_size)


@pytest.mark.programs
async def test_an_unknown_host_key_is_refused_with_its_fingerprint(
    tmp_path: Path, server: Sshd
) -> None:
    options = server.settings()
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    fingerprint = asyncssh.import_public_key(server.host_key).get_fingerprint()
    for trusted in ("", other, "SHA256:nonsense"):
        drop = Drop(tmp_path, {**options, "sftp_host_key": trusted})
        with pytest.raises(
            CheckFailed, match="host key that the configuration does not trust"
        ) as found:
            await drop.connector().check()
        assert fingerprint in str(found.value)
        assert f'sftp_host_key = "{server.host_key}"' in str(found.value)


@pytest.mark.programs
async def test_a_host_is_known_by_its_fingerprint_or_from_a_file(
    tmp_path: Path, server: Sshd
) -> None:
    fingerprint = asyncssh.import_public_key(server.host_key).get_fingerprint()
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{server.port} {server.host_key}\n", "ascii")
    for trust in ({"sftp_host_key": fingerprint}, {"sftp_known_hosts": known}):
        options = {**server.settings(), "sftp_host_key": "", **trust}
        connector = Drop(tmp_path, options).connector()
        await connector.check()
        await connector.close()


@pytest.mark.programs
async def test_files_are_moved_and_rejected_rows_put_there(
    tmp_path: Path, server: Sshd
) -> None:
    drop = Drop(tmp_path, server.settings())
    connector = drop.connector()
    await connector.open()
    for number in (1, 2):
        drop.put("fulfillments.csv", f"{ROWS},DHL,{number}\n")
        await drop.host.pull(connector)
    drop.put("cancellations.csv", "nothing,of,use\n1,2,3\n")
    await drop.host.pull(connector)
    told = [
        Rejection(b.key, b.raw, b.reason, b.locator) for b in drop.host.bad.values()
    ]
    for _ in range(2):
        await connector.report(told)
    await connector.close()
    assert len(drop.records()) == 2
    assert drop.files() == {
        "archive/fulfillments.csv",
        "archive/fulfillments-2.csv",
        "held/cancellations.csv",
        "held/cancellations.csv.reason.txt",
        "rejected/fulfillments.rejected.csv",
    }
    assert (tmp_path / "rejected/fulfillments.rejected.csv").read_text().count(
        "DHL"
    ) == 2


@pytest.mark.programs
async def test_a_stock_file_that_grew_there_goes_on_behind_another(
    tmp_path: Path, server: Sshd
) -> None:
    drop = Drop(tmp_path, server.settings())
    connector = drop.connector()
    await connector.open()
    for name, rows in (("a", "A,1,\n"), ("b", "B,1,\n"), ("a", "A,1,\nC,1,\n")):
        drop.put(f"stock-deltas-{name}.csv", f"{STOCK_DELTAS}{rows}")
        await drop.host.pull(connector)
    await connector.close()
    skus = [r.sku for r in drop.records() if isinstance(r, StockAdjustment)]
    assert skus == ["A", "B", "C"]


class Lying(asyncssh.SFTPServer):
    """A server whose names lead out of the folder; notes what it is asked for."""

    asked: ClassVar[list[bytes]] = []

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        self.asked.append(path)
        raise asyncssh.SFTPNoSuchFile("not there")

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        attributes = asyncssh.SFTPAttrs(
            size=10, permissions=0o100644, mtime=1, atime=1, type=1
        )
        for name in (
            b"fulfillments/../../../etc/passwd.csv",
            b"fulfillments-\\..\\x.csv",
            b"../fulfillments.csv",
            b"..",
        ):
            yield asyncssh.SFTPName(name, name, attributes)


class Doorman(asyncssh.SSHServer):
    """Lets in who knows the password."""

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return password == PASSWORD


@pytest.fixture
async def harmful(tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    listening = await asyncssh.create_server(
        Doorman, "127.0.0.1", 0, server_host_keys=[key], sftp_factory=Lying
    )
    yield {
        "path": str(tmp_path),
        "sftp_host": "127.0.0.1",
        "sftp_port": listening.get_port(),
        "sftp_user": "anybody",
        "sftp_password": PASSWORD,
        "sftp_host_key": key.export_public_key().decode(),
        "unchanged_seconds": 0,
    }
    listening.close()
    await listening.wait_closed()


async def test_names_that_lead_elsewhere_are_passed_over(
    harmful: dict[str, Any],
) -> None:
    Lying.asked.clear()
    connector = FileDrop("drop", Settings.model_validate(harmful))
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    await connector.close()
    assert (host.records, host.bad) == ({}, {})
    assert Lying.asked == []


async def test_a_wrong_password_is_reported_without_showing_it(
    harmful: dict[str, Any],
) -> None:
    wrong = {**harmful, "sftp_password": "not-the-password"}
    connector = FileDrop("drop", Settings.model_validate(wrong))
    with pytest.raises(CheckFailed, match="refuses the login of anybody") as found:
        await connector.check()
    await connector.close()
    assert "not-the-password" not in str(found.value)
    assert "not-the-password" not in repr(connector.settings)


async def test_a_missing_server_is_reported_in_a_sentence(
    harmful: dict[str, Any],
) -> None:
    gone = {**harmful, "sftp_port": 1}
    with pytest.raises(CheckFailed, match=r"127\.0\.0\.1:1 cannot be reached"):
        await FileDrop("drop", Settings.model_validate(gone)).check()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sftp_host": "h", "sftp_password": "x"}, "sftp_user is missing"),
        (
            {"sftp_host": "h", "sftp_user": "u"},
            "sftp_password and sftp_key are both missing",
        ),
        ({"sftp_user": "u"}, "sftp_host is missing"),
        ({"sftp_host_key": "ssh-rsa nonsense"}, "is not a public key"),
        ({"exports": "../out"}, "the name of one folder"),
        (
            {"exports": "archive"},
            "Backhaul itself uses archive, held, rejected, exported",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    options: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Settings.model_validate({"path": "/srv", **options})
