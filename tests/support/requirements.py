"""Programs that some tests need and that need not be there."""

from __future__ import annotations

import os
import shutil

import pytest

DEBIAN = {
    "openssl": "openssl",
    "sqlite3": "sqlite3",
    "slowhttptest": "slowhttptest",
    "faketime": "faketime",
    "strace": "strace",
    "dnsmasq": "dnsmasq-base",
    "systemd-analyze": "systemd",
}
"""Which Debian package brings a program."""
VARIABLE = "TEST_REQUIRE"


def everything_is_required() -> bool:
    """Tell whether tests may leave nothing out."""
    return os.environ.get(VARIABLE) == "all"


def require(tool: str) -> str:
    """Return the program's path; without it skip, or fail if all must be tested."""
    if found := shutil.which(tool):
        return found
    missing = f"{tool} is missing: apt-get install {DEBIAN.get(tool, tool)}"
    if everything_is_required():
        pytest.fail(f"{missing} ({VARIABLE}=all)", pytrace=False)
    pytest.skip(missing)
