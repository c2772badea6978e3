"""`backhaul check-config` prints ok, or everything that is wrong."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
import typer

from backhaul.cli.doctor import check_config, summary
from backhaul.cli.exit_codes import run
from backhaul.settings import load_settings
from scenes.terminal import terminal_lines
from settings.configurations import STORE, secret, written

if TYPE_CHECKING:
    from pathlib import Path


WITHOUT_SECRETS = """\
[stores.main]
base_url = "https://shop.example"
api_key_file = "FOLDER/secret"
"""
ERP = 'type = "sql"\nurl = "postgresql://u:pw@db/erp"\n'
SENDING = (
    "job push_fulfillments",
    "job push_cancellations",
    "job push_adjustments",
)


def check(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    app = typer.Typer()
    app.command("check-config")(check_config)
    monkeypatch.setattr(sys, "argv", ["check-config", *arguments])
    return run(app, arguments)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BACKHAUL_CONFIG", raising=False)


def test_a_good_configuration_is_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, STORE)
    file.chmod(0o600)
    assert check(monkeypatch, "--config", str(file)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines() == [
        f"ok  {file}",
        "state                      /var/lib/backhaul",
        "database                   /var/lib/backhaul/backhaul.db",
        "public                     0.0.0.0:8750",
        "admin                      127.0.0.1:8751",
        "store main                 https://shop.example",
        "job prune                  every 1h",
        "job backup                 every 1d",
        *(
            f"{job:<27}at once: commands are sent when planned, because no schedule"
            " is set for the job"
            for job in SENDING
        ),
        "job reconcile_incremental  every 5m",
        "job reconcile_full         every 6h",
        "job audit                  every 5m",
    ]


def test_a_long_row_is_wrapped_between_words_at_a_terminal(tmp_path: Path) -> None:
    file = written(tmp_path, STORE)
    file.chmod(0o600)
    lines = terminal_lines("check-config", config=file, columns=80, lines=24)
    assert max(map(len, lines[1:])) <= 80
    begin = "at once: commands are sent when planned, because no"
    first = lines.index(f"job push_fulfillments      {begin}")
    assert lines[first + 1] == f"{'':27}schedule is set for the job"


def test_the_rule_of_each_job_that_sends_is_shown(tmp_path: Path) -> None:
    other = STORE.replace("main", "other")
    own = '[jobs.push_fulfillments]\ntrigger = "cron"\ncron = "0 3 1 1 *"\n'
    own += "[stores.other.jobs.push_fulfillments]\neager = true\n[push]\neager = true"
    settings = load_settings(written(tmp_path, STORE + other + own), {})
    rows = dict(summary(settings))
    assert rows["job push_fulfillments:main"] == (
        "cron 0 3 1 1 *: commands are sent only then, because a schedule is set for the"
        " job and overrides [push] eager"
    )
    assert rows["job push_fulfillments:other"] == (
        "at once: commands are sent when planned, because eager = true is set for"
        " the job; ignored: cron, trigger"
    )
    assert "job push_cancellations" in rows, "both stores have the same"


def test_connectors_are_named_with_their_store(tmp_path: Path) -> None:
    connectors = '[connectors.a]\ntype = "x"\n[connectors.b]\ntype = "y"\n'
    file = written(tmp_path, f"{STORE}{connectors}enabled = false")
    rows = [row for row in summary(load_settings(file, {})) if "connector" in row[0]]
    assert rows == [
        ("connector a", "x for main"),
        ("connector b", "y for main, disabled"),
        ("job connector_a", "every 2s"),
    ]


def test_the_file_in_the_working_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, STORE)
    assert check(monkeypatch) == 0
    assert capsys.readouterr().out.startswith("ok  backhaul.toml\n")


def test_findings_are_printed_one_a_line_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, f"{STORE}[log]\nlevel = 3\n[publik]\n")
    file.chmod(0o600)
    assert check(monkeypatch, "--config", str(file)) == 78
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f'{file}:6: log.level: must be "TRACE", "DEBUG", "INFO", "WARNING" or "ERROR"',
        f"{file}:7: publik: unknown setting (did you mean public?)",
    ]


def test_without_a_file_the_places_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(monkeypatch) == 78
    assert capsys.readouterr().err.startswith("configuration: no file found")


MANY = """\
[log]
level = 3
[public]
port = 8751
[jobs.push_fulfillments]
every = "soon"
[connectors.typo]
type = "filedrop"
every = "often"
enabled = "perhaps"
[connectors.elsewhere]
type = "file_drop"
store = "mian"
every = 3
pth = "/srv/drop"
"""


def test_no_mistake_hides_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, STORE + MANY)
    file.chmod(0o640)
    assert check(monkeypatch, "--config", str(file)) == 78
    said = capsys.readouterr().err
    for expected in (
        ":6: log.level: must be",
        ": admin.port: 8751 is also public.port",
        ":10: jobs.push_fulfillments.every: must be a duration",
        ":12: connectors.typo.type: no connector is called 'filedrop' "
        "(did you mean 'file_drop'?)",
        ":13: connectors.typo.every: must be a duration",
        ":14: connectors.typo.enabled: must be true or false",
        ":17: connectors.elsewhere.store: names a store that is not in the"
        " configuration (did you mean main?)",
        ":18: connectors.elsewhere.every: must be a duration",
        ":19: connectors.elsewhere.pth: unknown setting (did you mean path?)",
        f"{file}: contains secrets, but its mode 0640 gives other users access"
        f" (run: chmod 600 {file}",
    ):
        assert expected in said, said


@pytest.mark.parametrize(
    ("text", "mode", "is_told"),
    [
        (STORE, 0o600, False),
        (STORE, 0o400, False),
        (STORE, 0o640, True),
        (STORE, 0o604, True),
        (STORE, 0o644, True),
        (STORE.replace("api_key =", "api_key_file ="), 0o644, True),
        (WITHOUT_SECRETS, 0o644, False),
        (f"{WITHOUT_SECRETS}[alerts]\nsmtp_password = 'secret'\n", 0o644, True),
        (f"{WITHOUT_SECRETS}[connectors.erp]\n{ERP}", 0o644, True),
    ],
)
def test_a_file_with_readable_secrets_is_reported_even_if_it_is_invalid(
    text: str,
    mode: int,
    is_told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = secret(tmp_path, "svc_live_key")
    file = written(tmp_path, text.replace("canary-key", str(key)))
    file.chmod(mode)
    for more in ("", "[publik]\n"):
        file.write_text(file.read_text() + more)
        check(monkeypatch, "--config", str(file))
        assert ("gives other users access" in capsys.readouterr().err) is is_told


def test_warnings_leave_the_exit_code_and_are_in_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, STORE.replace("https:", "http:"))
    assert check(monkeypatch, "--config", str(file), "--json") == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    shown, plain = warnings
    assert shown.startswith(f"{file} contains secrets, but its mode 0644 gives other")
    assert plain.startswith("stores.main.base_url is http://shop.example")


def test_a_missing_path_suggests_an_existing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, STORE)
    assert check(monkeypatch, "--config", str(tmp_path / "bakhaul.toml")) == 78
    assert f"did you mean {file}?" in capsys.readouterr().err
    assert check(monkeypatch, "--config", str(tmp_path / "no/b.toml")) == 78
    assert f"folder {tmp_path / 'no'} does not exist" in capsys.readouterr().err
