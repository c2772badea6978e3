"""Without the library of an extra, an error says what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.files import FileUnreadable
from backhaul_connectors.file_drop.format_detection import format_of
from backhaul_sdk.extras import LIBRARIES
from repository.tree import read
from settings.configurations import STORE, written

if TYPE_CHECKING:
    from pathlib import Path

DROP = '[connectors.bus]\ntype = "file_drop"\n'
SFTP = 'path = "/out"\nsftp_user = "u"\nsftp_password = "canary-word"\n'
USES = {
    "amqp": '[connectors.bus]\ntype = "amqp"\nurl = "amqp://127.0.0.1"\n'
    'password = "canary-word"\npublish = {}\n',
    "azure": f'{DROP}folder = "az://box/in"\n',
    "ftp": f'{DROP}folder = "ftps://host/in"\nuser = "u"\npassword = "canary-word"\n',
    "gcs": f'{DROP}folder = "gs://box/in"\n',
    "imap": f'{DROP}imap = {{ host = "127.0.0.1", user = "u", senders = ["*"] }}\n'
    'imap_password = "canary-word"\n',
    "login": "[admin]\nrequire_totp = true\n",
    "mail": '[alerts]\nmail_to = ["a@shop.example"]\nmail_from = "b@shop.example"\n',
    "mqtt": '[connectors.bus]\ntype = "scanner"\nmqtt_host = "broker"\n'
    'mqtt_devices = ["dock"]\n',
    "mysql": '[connectors.bus]\ntype = "sql"\nurl = "mysql://u@host/erp"\n'
    'reads = { levels = { table = "stock", kind = "stock_levels" } }\n',
    "nats": '[connectors.bus]\ntype = "nats"\nservers = ["nats://127.0.0.1"]\n'
    'publish = { stream = "STORE" }\n',
    "otel": '[telemetry]\notlp_endpoint = "http://127.0.0.1:4318"\n',
    "postgres": '[database]\nurl = "postgresql://u@host/mirror"\n',
    "s3": f'{DROP}folder = "s3://box/in"\n',
    "sftp": f'{DROP}sftp_host = "erp.example"\n'
    f'sftp_host_key = "SHA256:{"A" * 43}"\n{SFTP}',
    "sql": '[connectors.bus]\ntype = "sql"\nurl = "sqlite:////srv/erp.db"\n'
    'reads = { levels = { table = "stock", kind = "stock_levels" } }\n',
    "webdav": f'{DROP}folder = "webdavs://host/in"\nuser = "u"\n'
    'password = "canary-word"\n',
}
"""Settings that need an extra."""
BY_A_FILE = {"edi", "excel"}
READ = """
import sys
from pathlib import Path
import backhaul.app.daemon
from backhaul.connect import registry
from backhaul_connectors.{kind} import {name}
from backhaul_connectors.{kind}.settings import Settings
print([m for m in sys.modules if m.partition(".")[0] in {modules}])
"""
BLOCK = "import sys; sys.modules[{!r}] = None; "
MAIN = "from backhaul.__main__ import main; main()"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("extra", USES)
def test_a_missing_library_is_named_with_its_extra(extra: str, tmp_path: Path) -> None:
    state = f'state_dir = "{tmp_path}/state"\n'
    file = written(tmp_path, state + STORE + USES[extra])
    file.chmod(0o600)
    check = ("check-config", "--config", str(file))
    blocked = BLOCK.format(LIBRARIES[extra][1]) + MAIN
    missing, present = run(blocked, *check), run(MAIN, *check)
    errors = " ".join(missing.stderr.split())
    assert missing.returncode == 78
    assert errors.count(f"pip install 'backhaul[{extra}]'") == 1
    assert "Traceback" not in errors
    assert "canary-word" not in errors
    assert "pip install" not in present.stderr


def test_a_spreadsheet_says_which_extra_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES["excel"][1], None)
    with pytest.raises(FileUnreadable, match=r"pip install 'backhaul\[excel\]'"):
        format_of(BytesIO(b"PK\x03\x04" + bytes(64)), "stock.xlsx")


@pytest.mark.parametrize(
    "command", [("connectors", "presets"), ("check-config", "--schema")]
)
def test_a_command_about_all_connectors_leaves_out_those_without_their_library(
    command: tuple[str, ...],
) -> None:
    done = run(BLOCK.format(LIBRARIES["sql"][1]) + MAIN, *command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "file_drop" in done.stdout


def test_every_extra_is_known() -> None:
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    assert set(LIBRARIES) == set(extras) - {"all", "demo-cluster"}
    assert set(USES) | BY_A_FILE == set(LIBRARIES)
    rows = re.findall(r"^\| (`.+?) \|", read("docs/extras.md"), re.MULTILINE)
    assert {name for row in rows for name in re.findall("`(.+?)`", row)} == (
        set(extras) - {"all"}
    )


@pytest.mark.parametrize(("kind", "name"), [("nats", "Nats"), ("amqp", "Amqp")])
def test_settings_are_read_without_the_library(kind: str, name: str) -> None:
    modules = {"nats", "nkeys", "aio_pika", "aiormq", "pamqp"}
    done = run(READ.format(kind=kind, name=name, modules=modules))
    assert (done.stdout, done.stderr) == ("[]\n", "")
