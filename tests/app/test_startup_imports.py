"""The daemon loads nothing before it is ready that can be loaded later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.daemon import daemon_process, office_of
from scenes.reference_process import reference

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.programs]

CAN_WAIT = {
    *("jinja2", "aiosmtplib", "openpyxl", "asyncssh", "sqlalchemy", "psycopg"),
    *("imapclient", "pymysql", "backhaul.demo.runner", "backhaul.doctor.check_runner"),
}
"""Modules that only a page, a mail or a single connector needs."""


def test_a_start_loads_nothing_that_can_wait(tmp_path: Path) -> None:
    telling = {"PYTHONPROFILEIMPORTTIME": "1"}
    with (
        reference(tmp_path) as platform,
        office_of(platform) as office,
        daemon_process(office, telling) as started,
    ):
        lines = started.log.read_text("utf-8").splitlines()
    imports = [line for line in lines if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in imports}
    assert "backhaul.app.daemon" in loaded
    assert CAN_WAIT & loaded == set()
