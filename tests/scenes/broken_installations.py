"""Installations with one defect each, for tests of `backhaul doctor`."""

from __future__ import annotations

import shutil
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from backhaul.core.clock import SystemClock
from backhaul.doctor.storage import Machine
from backhaul.store.sqlite.connections import PAGE_BYTES
from scenes import leftovers
from scenes.daemon import Office
from scenes.damaged_rows import insert
from scenes.reference_process import ReferenceProcess

if TYPE_CHECKING:
    from pathlib import Path

Plant: TypeAlias = Callable[[Office, ReferenceProcess], object]


def repair_all(office: Office, database: Path) -> None:
    """Repair all defects that do not depend on time."""
    office.database.parent.mkdir(mode=0o700)
    shutil.copy(database, office.database)
    office.config.chmod(0o600)


def rewrite(office: Office, **changes: str) -> None:
    office.write(**changes)
    office.config.chmod(0o600)


def misspelt(office: Office, _: ReferenceProcess) -> None:
    rewrite(office, unchanged_seconds="unchangd_seconds")


def open_secret_file(office: Office, _: ReferenceProcess) -> None:
    file = office.folder / "key"
    file.write_text(office.api_key)
    file.chmod(0o644)
    rewrite(office, **{f'api_key = "{office.api_key}"': f'api_key_file = "{file}"'})


def open_config(office: Office, _: ReferenceProcess) -> None:
    office.config.chmod(0o644)


def unknown_host(office: Office, _: ReferenceProcess) -> None:
    rewrite(office, **{office.base_url: "https://shop.invalid"})


def plain_http(office: Office, _: ReferenceProcess) -> None:
    rewrite(office, **{office.base_url: "http://shop.invalid"})


def plain_alerts(office: Office, _: ReferenceProcess) -> None:
    with office.config.open("a") as config:
        config.write('\n[alerts]\nwebhook_url = "http://192.0.2.7/hook"\n')
        config.write('webhook_secret = "whsec_c29tZXRoaW5nIHNlY3JldA=="\n')


def closed_port(office: Office, _: ReferenceProcess) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    rewrite(office, **{office.base_url: address})


def no_tls(office: Office, _: ReferenceProcess) -> None:
    secure = office.base_url.replace("http:", "https:")
    rewrite(office, **{office.base_url: secure})


def wrong_path(office: Office, _: ReferenceProcess) -> None:
    rewrite(office, **{office.base_url: f"{office.base_url}/shop"})


def wrong_key(office: Office, _: ReferenceProcess) -> None:
    rewrite(office, **{office.api_key: "svc_live_" + "0" * 40})


def wrong_key_in_a_file(office: Office, _: ReferenceProcess) -> None:
    file = office.folder / "key"
    file.write_text("svc_live_" + "0" * 40)
    file.chmod(0o600)
    rewrite(office, **{f'api_key = "{office.api_key}"': f'api_key_file = "{file}"'})


def no_scope(office: Office, platform: ReferenceProcess) -> None:
    body = {"name": "narrow", "scopes": ["orders:read", "products:read", "store:read"]}
    made = platform.control("POST", "/stores/demo/keys", body).data()
    key = next(str(value) for value in made.values() if "svc_live_" in str(value))
    leftovers.issued(key)
    rewrite(office, **{office.api_key: key})


def other_store(office: Office, _: ReferenceProcess) -> None:
    facts = '{"store_id":"sto_other","currency":"INR","features":[]}'
    insert(office.database, "kv", name="facts:main", value=facts)


def no_wal(office: Office, _: ReferenceProcess) -> None:
    with closing(sqlite3.connect(office.database)) as database:
        database.execute("PRAGMA journal_mode=DELETE")


def newer_schema(office: Office, _: ReferenceProcess) -> None:
    with closing(sqlite3.connect(office.database)) as database:
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('backhaul', 'm999_flight', '2030-01-01')"
        )
        database.commit()


def damaged(office: Office, _: ReferenceProcess) -> None:
    no_wal(office, _)
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'inbox'"
    with closing(sqlite3.connect(office.database)) as database:
        (page,) = database.execute(query).fetchone()
    with office.database.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)


def open_folder(office: Office, _: ReferenceProcess) -> None:
    office.database.parent.chmod(0o777)


def state_in_a_file(office: Office, _: ReferenceProcess) -> None:
    (office.folder / "plain").touch()
    rewrite(office, **{f'"{office.folder}/state"': f'"{office.folder}/plain/state"'})


def state_in_proc(office: Office, _: ReferenceProcess) -> None:
    rewrite(office, **{f'"{office.folder}/state"': '"/proc/backhaul"'})


def no_folder(office: Office, _: ReferenceProcess) -> None:
    office.drop.rmdir()


class Ahead(SystemClock):
    """A clock that is set ten minutes ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=10)


class Full(Machine, frozen=True):
    """A machine whose disk is full."""

    def free_bytes(self, folder: Path) -> int:
        return 1_000_000


class ReadOnly(Machine, frozen=True):
    """A machine whose disk is read-only, because it failed."""

    def is_read_only(self, folder: Path) -> bool:
        return True


def on_network(folder: Path) -> Machine:
    """Return a machine on which each folder is on a network file system."""
    mounts = folder / "mountinfo"
    mounts.write_text("21 1 0:30 / / rw,noatime shared:1 - nfs4 nas:/data rw\n")
    return Machine(mounts)
