"""Where the configuration comes from, and which source has precedence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backhaul.errors import ConfigurationError, Finding
from backhaul.settings import (
    Connector,
    bare_environment,
    configuration_file,
    load_settings,
    secret_values,
)
from settings.configurations import STORE, complaints, written

VARIABLES = {
    "BACKHAUL_STORES__MAIN__BASE_URL": "https://shop.example/",
    "BACKHAUL_STORES__MAIN__API_KEY": "canary-key",
    "BACKHAUL_STORES__MAIN__WEBHOOK_SECRETS": "canary-hook, canary-other",
}


def test_a_store_alone_is_enough(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, STORE), {})
    assert settings.stores["main"].base_url == "https://shop.example"
    assert settings.place == Path("/var/lib/backhaul/backhaul.db")
    assert settings.jobs.push_fulfillments.every == 5.0
    assert settings.connect.match_wait == 600.0


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("", "state/backhaul.db"),
        ("sqlite:////srv/b.db", "/srv/b.db"),
        ("sqlite:///b.db", "b.db"),
    ],
)
def test_the_database_is_in_the_state_folder_unless_named(
    url: str, file: str, tmp_path: Path
) -> None:
    text = f'state_dir = "state"\n{STORE}[database]\nurl = "{url}"'
    assert load_settings(written(tmp_path, text), {}).place == Path(file)


URL = "postgresql://backhaul:canary%2Fword@db.example:5433/mirror?sslmode=require"


def test_a_postgresql_database_keeps_its_password_to_itself(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, f'{STORE}[database]\nurl = "{URL}"'), {})
    assert settings.place == URL
    assert settings.database_name == "postgresql://backhaul@db.example:5433/mirror"
    assert "canary" not in repr(settings)
    assert {"canary%2Fword", "canary/word"} <= set(secret_values(settings))
    assert settings.data_folder == settings.state_dir


def test_a_password_among_the_parameters_of_the_url_is_a_secret(tmp_path: Path) -> None:
    url = "postgresql://db.example/mirror?sslmode=require&password=canary%2Fword"
    settings = load_settings(written(tmp_path, f'{STORE}[database]\nurl = "{url}"'), {})
    assert "canary" not in settings.database_name
    assert {"canary%2Fword", "canary/word"} <= set(secret_values(settings))


@pytest.mark.parametrize(
    ("url", "has_backups"), [("sqlite:///b.db", True), (URL, False)]
)
def test_only_a_file_is_backed_up_by_a_job(
    url: str, has_backups: bool, tmp_path: Path
) -> None:
    """On PostgreSQL the job would fail, and alert somebody, each day."""
    settings = load_settings(written(tmp_path, f'{STORE}[database]\nurl = "{url}"'), {})
    assert (("backup", "") in settings.planned_jobs()) is has_backups


def test_a_postgresql_url_comes_from_a_file_or_by_custom_from_the_environment(
    tmp_path: Path,
) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    file.chmod(0o600)
    text = f'{STORE}[database]\nurl_file = "{file}"'
    other = {"DATABASE_URL": "postgres://other/db"}
    assert load_settings(written(tmp_path, text), other).place == URL
    assert load_settings(written(tmp_path, STORE), other).place == "postgres://other/db"
    foreign = {"DATABASE_URL": "mysql://other/db"}
    in_file = load_settings(written(tmp_path, STORE), foreign).place
    assert in_file == Path("/var/lib/backhaul/backhaul.db")


def test_the_environment_alone_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = load_settings(None, VARIABLES).stores["main"]
    assert store.base_url == "https://shop.example"
    secrets = [secret.get_secret_value() for secret in store.webhook_secrets]
    assert secrets == ["canary-hook", "canary-other"]


def test_the_environment_is_stronger_than_the_file(tmp_path: Path) -> None:
    environ = {
        "BACKHAUL_STORES__MAIN__API_KEY": "from-environment",
        "BACKHAUL_PUBLIC__PORT": "0",
        "BACKHAUL_LOG__LEVEL": "debug",
        "BACKHAUL_PUSH__EAGER": "false",
        "BACKHAUL_JOBS__PUSH_ADJUSTMENTS__EVERY": "1m",
        "PATH": "/bin",
    }
    text = f"{STORE}[public]\nport = 1\nhost = '::1'"
    settings = load_settings(written(tmp_path, text), environ)
    key = settings.stores["main"].api_key.get_secret_value()
    assert (key, settings.public.port, settings.public.host) == (
        "from-environment",
        0,
        "::1",
    )
    assert (settings.log.level, settings.push.eager) == ("DEBUG", False)
    assert settings.jobs.push_adjustments.every == 60.0


def test_a_bare_environment_overrides_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    left_out = {*VARIABLES, "CREDENTIALS_DIRECTORY"}
    assert before.keys() - bare_environment().keys() == left_out
    assert bare_environment().items() <= before.items()


def test_lists_in_the_environment_may_be_json(tmp_path: Path) -> None:
    environ = {
        "BACKHAUL_STORES__MAIN__WEBHOOK_SECRETS": '["a,b"]',
        "BACKHAUL_CONNECTORS__X__TYPE": "scanner",
        "BACKHAUL_CONNECTORS__X__COLUMNS": '{"order": "Order No"}',
        "BACKHAUL_CONNECTORS__X__PATH": "/srv/[in",
        "BACKHAUL_CONNECTORS__X__PATTERN": "[broken",
    }
    settings = load_settings(written(tmp_path, STORE), environ)
    secrets = settings.stores["main"].webhook_secrets
    assert [secret.get_secret_value() for secret in secrets] == ["a,b"]
    assert settings.connectors["x"].options == {
        "columns": {"order": "Order No"},
        "path": "/srv/[in",
        "pattern": "[broken",
    }


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (
            "BACKHAUL_PUBLIC__PRT",
            "1",
            "BACKHAUL_PUBLIC__PRT: public.prt: unknown setting (did you mean port?)",
        ),
        (
            "BACKHAUL_LOGS",
            "x",
            "BACKHAUL_LOGS: logs: unknown setting (did you mean log?)",
        ),
        (
            "BACKHAUL_PUBLIC__PORT",
            "",
            "BACKHAUL_PUBLIC__PORT: public.port: must be a whole number",
        ),
        (
            "BACKHAUL_STORES__MAIN__WEBHOOK_SECRETS",
            "[canary",
            "BACKHAUL_STORES__MAIN__WEBHOOK_SECRETS: stores.main.webhook_secrets: "
            "must be a list",
        ),
        (
            "BACKHAUL_PUBLIC__PORT__X",
            "1",
            "BACKHAUL_PUBLIC__PORT__X: public.port: must be a whole number",
        ),
    ],
)
def test_a_wrong_variable_is_named(
    name: str, value: str, complaint: str, tmp_path: Path
) -> None:
    assert complaints(tmp_path, STORE, {name: value}) == [complaint]


def test_a_variable_that_is_both_table_and_value_is_named(tmp_path: Path) -> None:
    environ = {"BACKHAUL_LOG": "x", "BACKHAUL_LOG__LEVEL": "INFO"}
    assert complaints(tmp_path, STORE, environ) == [
        "BACKHAUL_LOG__LEVEL: log: must be a table, but also has a plain value",
        "BACKHAUL_LOG: log: must be a table",
    ]


def test_the_file_is_searched_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert configuration_file(None, {}) is None
    written(tmp_path, STORE)
    assert configuration_file(None, {}) == Path("backhaul.toml")
    environ = {"BACKHAUL_CONFIG": "/srv/b.toml"}
    assert configuration_file(None, environ) == Path("/srv/b.toml")
    assert configuration_file(Path("c.toml"), environ) == Path("c.toml")


def test_without_any_file_the_places_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(None, {"PATH": "/bin"})
    assert str(caught.value) == (
        "configuration: no file found (give --config or $BACKHAUL_CONFIG; tried "
        "backhaul.toml and /etc/backhaul/backhaul.toml)"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: no such file or directory"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    content: bytes | None, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "b.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, {})
    assert str(caught.value) == f"{file}: {problem}"


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: is a directory"):
        load_settings(tmp_path, {})


def test_connectors_keep_their_own_settings_and_find_the_only_store(
    tmp_path: Path,
) -> None:
    text = f'{STORE}[connectors.drop]\ntype = "file_drop"\nevery = "1m"\noptions = 1'
    connector = load_settings(written(tmp_path, text), {}).connectors["drop"]
    assert (connector.store, connector.every) == ("main", 60.0)
    assert connector.options == {"options": 1}


def test_a_connector_checks_its_own_settings(tmp_path: Path) -> None:
    seen: list[tuple[str, dict[str, object]]] = []

    def validate(name: str, connector: Connector) -> list[Finding]:
        seen.append((name, connector.options))
        return [
            Finding("", "path", "is missing"),
            Finding("", "connectors.drop.path", "is odd as well"),
            Finding("", "", "there is no such type"),
            Finding("elsewhere", "path", "is odd", "mend it"),
        ]

    text = f'{STORE}api = 1\n[connectors.drop]\ntype = "file_drop"\npath = "x"'
    assert complaints(tmp_path, text, validate_connector=validate) == [
        "backhaul.toml:5: stores.main.api: unknown setting (did you mean api_key?)",
        "backhaul.toml:8: connectors.drop.path: is missing",
        "backhaul.toml:8: connectors.drop.path: is odd as well",
        "backhaul.toml:6: connectors.drop: there is no such type",
        "elsewhere: connectors.drop.path: is odd (mend it)",
    ]
    assert seen == [("drop", {"path": "x"})]


JOBS = """\
[jobs.reconcile_full]
trigger = "cron"
cron = "0 3 * * *"
jitter = "10m"
quiet = "22:00-06:00"
[stores.main.jobs.reconcile_full]
"""


@pytest.mark.parametrize(
    ("own", "when"),
    [
        ("", "cron 0 3 * * *, up to 10m later, not 22:00-06:00"),
        ("quiet = []", "cron 0 3 * * *, up to 10m later"),
        ('trigger = "interval"', "every 6h, up to 10m later, not 22:00-06:00"),
        ('every = "2h"', "every 2h, up to 10m later, not 22:00-06:00"),
        (
            'jitter = "1s"\nquiet = ["12:00-13:00", "23:00-01:00"]',
            "cron 0 3 * * *, up to 1s later, not 12:00-13:00, 23:00-01:00",
        ),
        ("enabled = false", "never: enabled = false"),
    ],
)
def test_a_store_has_times_of_its_own(own: str, when: str, tmp_path: Path) -> None:
    other = STORE.replace("main", "other")
    jobs = load_settings(written(tmp_path, STORE + other + JOBS + own), {})
    planned = jobs.planned_jobs()
    assert planned["reconcile_full", "main"].schedule_text() == when
    usual = "cron 0 3 * * *, up to 10m later, not 22:00-06:00"
    assert planned["reconcile_full", "other"].schedule_text() == usual
    assert planned["push_adjustments", "main"].schedule_text() == "every 5s"
    assert len(planned) == 14


def test_the_environment_gives_quiet_hours_and_a_store_its_own(tmp_path: Path) -> None:
    environ = {
        "BACKHAUL_JOBS__PRUNE__QUIET": "08:00-12:00, 13:00-18:00",
        "BACKHAUL_STORES__MAIN__JOBS__PUSH_ADJUSTMENTS__EVERY": "2m",
    }
    planned = load_settings(written(tmp_path, STORE), environ).planned_jobs()
    assert planned["prune", ""].schedule_text() == (
        "every 1h, not 08:00-12:00, 13:00-18:00"
    )
    assert planned["push_adjustments", "main"].schedule_text() == "every 2m"


def test_looks_is_an_alias_of_check_after(tmp_path: Path) -> None:
    file = written(tmp_path, f'{STORE}[push]\nlooks = ["0s", "5s"]')
    assert load_settings(file, {}).push.check_after == (0.0, 5.0)


@pytest.mark.parametrize("in_file", ["looks", "check_after"])
@pytest.mark.parametrize("in_environment", ["LOOKS", "CHECK_AFTER"])
def test_the_environment_is_stronger_under_either_name(
    in_file: str, in_environment: str, tmp_path: Path
) -> None:
    file = written(tmp_path, f'{STORE}[push]\n{in_file} = ["0s", "5s"]')
    environ = {f"BACKHAUL_PUSH__{in_environment}": "1s, 2s"}
    assert load_settings(file, environ).push.check_after == (1.0, 2.0)


def test_both_names_of_a_setting_in_one_place_are_refused(tmp_path: Path) -> None:
    text = f'{STORE}[push]\nlooks = ["0s"]\ncheck_after = ["0s"]'
    assert complaints(tmp_path, text) == [
        "backhaul.toml:6: push.looks: is the old name of check_after, which is also "
        "given (keep check_after only)"
    ]


def test_a_mistake_under_the_old_name_is_reported_at_its_line(tmp_path: Path) -> None:
    text = f'{STORE}[push]\nlooks = ["5s", "0s"]'
    assert complaints(tmp_path, text) == [
        "backhaul.toml:6: push.check_after: must be in increasing order"
    ]
