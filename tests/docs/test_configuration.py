"""docs/configuration.md and the example files agree with the settings models."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.connect import registry
from backhaul.settings import Connector, Settings, Store, load_settings
from backhaul.settings.sources import ANY_NAME, is_secret, leaves, secret_names
from backhaul.settings.values import duration_text
from docs.configuration_page import default_text, page, sentence

if TYPE_CHECKING:
    from backhaul.errors import Finding

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/configuration.md"
EXAMPLE = (ROOT / "config/backhaul.example.toml").read_text(encoding="utf-8")
SECRETS = (ROOT / "config/secrets.example.env").read_text(encoding="utf-8")
NAMES = {"stores": "main", "connectors": "courier", "jobs": "push_adjustments"}
LEAVES = {
    tuple(
        NAMES[table] if key == ANY_NAME else key
        for table, key in zip(("", *path), path, strict=False)
    ): info
    for path, info in leaves()
}


def shown(text: str) -> dict[tuple[str, ...], str]:
    """Return every setting of the example as written, commented out or not."""
    table: tuple[str, ...] = ()
    found: dict[tuple[str, ...], str] = {}
    for line in text.splitlines():
        if header := re.fullmatch(r"\[([\w.]+)\]", line):
            table = tuple(header[1].split("."))
        elif setting := re.fullmatch(r"#?(\w+) = (.+)", line):
            found[(*table, setting[1])] = setting[2]
    return found


def prose(text: str) -> str:
    """Return the comments on one line."""
    lines = (line for line in text.splitlines() if line.startswith("# "))
    return " ".join(line.removeprefix("# ") for line in lines)


def test_the_page_is_current() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page(), encoding="utf-8")
    current = PAGE.read_text(encoding="utf-8") == page()
    assert current, "run UPDATE_DOCS=1 pytest tests/docs"


def test_every_field_and_table_has_its_sentence() -> None:
    unfinished = [
        path for path, info in leaves() if not (info.description or "").endswith(".")
    ]
    assert unfinished == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250ms"), (5.0, "5s"), (90.0, "90s"), (600.0, "10m"), (86400.0, "1d")],
)
def test_a_duration_is_written_in_the_largest_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_the_example_shows_each_setting_with_its_default(path: tuple[str, ...]) -> None:
    info = LEAVES[path]
    written = shown(EXAMPLE)
    if is_secret(info):
        assert (*path[:-1], f"{path[-1]}_file") in written or path in written
    elif default := default_text(info):
        assert written[path] == default
    else:
        assert path in written


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_the_example_explains_each_setting(path: tuple[str, ...]) -> None:
    assert (LEAVES[path].description or "?") in prose(EXAMPLE)


def test_the_example_shows_nothing_else() -> None:
    secret_files = {
        (*path[:-1], f"{path[-1]}_file") for path in LEAVES if is_secret(LEAVES[path])
    }
    own = {("connectors", "courier", "path")}
    assert set(shown(EXAMPLE)) - set(LEAVES) <= secret_files | own


def test_the_example_introduces_each_table() -> None:
    models = [
        info.annotation
        for name, info in Settings.model_fields.items()
        if f"[{name}]" in EXAMPLE and name != "database"
    ]
    sentences = [sentence(model) for model in models if isinstance(model, type)]
    assert [each for each in sentences if each not in prose(EXAMPLE)] == []


def check_connector(_: str, connector: Connector) -> list[Finding]:
    return registry.check(connector.type, connector.options)


def test_the_example_loads(tmp_path: Path) -> None:
    for secret in ("main_api_key", "main_webhook_secrets"):
        (tmp_path / secret).write_text("replaced\n")
        (tmp_path / secret).chmod(0o600)
    file = tmp_path / "backhaul.toml"
    file.write_text(EXAMPLE.replace("/etc/backhaul", str(tmp_path)))
    settings = load_settings(file, {}, validate_connector=check_connector)
    assert settings.stores["main"].api_key.get_secret_value() == "replaced"
    assert settings.connectors["courier"].store == "main"


def test_the_values_it_shows_for_optional_settings_are_valid(tmp_path: Path) -> None:
    cron = tomllib.loads(f"cron = {shown(EXAMPLE)['jobs', 'push_adjustments', 'cron']}")
    values = {
        "stores": {
            "main": {"base_url": "http://a", "api_key": "k", "webhook_secrets": ["w"]}
        },
        "jobs": {"push_adjustments": {"trigger": "cron", **cron}},
    }
    settings = Settings.model_validate(values)
    assert settings.jobs.push_adjustments.cron == "*/5 8-18 * * mon-fri"


def test_the_example_of_secrets_has_them_all_and_loads() -> None:
    pairs = re.findall(r"^(\w+)=(.*)$", SECRETS, re.MULTILINE)
    prefix = "BACKHAUL_STORES__MAIN__"
    assert [name for name, _ in pairs] == [
        f"{prefix}{secret.upper()}" for secret in secret_names(Store)
    ]
    environ = {f"{prefix}BASE_URL": "https://shop.example", **dict(pairs)}
    store = load_settings(None, environ).stores["main"]
    assert store.api_key.get_secret_value() == "replace-with-the-key"
