"""Secrets can come from files, and are never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from backhaul.settings import load_settings, secret_values
from settings.configurations import STORE, complaints, secret, written

if TYPE_CHECKING:
    from pathlib import Path

NO_KEY = STORE.replace('api_key = "canary-key"\n', "")
NO_HOOK = STORE.replace('webhook_secrets = ["canary-hook"]\n', "")
KEY_FILE = f'{NO_KEY}api_key_file = "FOLDER/secret"\n'
SCANNER = f'{STORE}[connectors.dock]\ntype = "scanner"\n'


def api_key(file: Path, environ: dict[str, str]) -> str:
    return load_settings(file, environ).stores["main"].api_key.get_secret_value()


def scanner_secrets(connector_type: str) -> set[str]:
    return {"scanner": {"tokens"}}.get(connector_type, set())


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    secret(tmp_path, "canary-file\n")
    assert api_key(written(tmp_path, KEY_FILE), {}) == "canary-file"


def test_a_list_of_secrets_has_one_a_line(tmp_path: Path) -> None:
    secret(tmp_path, "one\n\n two \n")
    text = f'{NO_HOOK}webhook_secrets_file = "FOLDER/secret"'
    store = load_settings(written(tmp_path, text), {}).stores["main"]
    assert [each.get_secret_value() for each in store.webhook_secrets] == ["one", "two"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_that_others_may_open_is_refused(mode: int, tmp_path: Path) -> None:
    secret(tmp_path, "canary-file", mode)
    assert complaints(tmp_path, KEY_FILE) == [
        f"backhaul.toml:4: stores.main.api_key_file: the mode 0{mode:o} of secret"
        " gives other users access (run: chmod 600 secret)"
    ]


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_its_owner_is_accepted(mode: int, tmp_path: Path) -> None:
    secret(tmp_path, "canary-file", mode)
    assert api_key(written(tmp_path, KEY_FILE), {}) == "canary-file"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert complaints(tmp_path, KEY_FILE) == [
        "backhaul.toml:4: stores.main.api_key_file: secret cannot be read: "
        "no such file or directory"
    ]


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    secret(tmp_path, " \n")
    assert complaints(tmp_path, KEY_FILE) == [
        "backhaul.toml:4: stores.main.api_key_file: secret is empty; write the"
        " secret to this file"
    ]


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    secret(tmp_path, "").write_bytes(b"\xff")
    assert complaints(tmp_path, KEY_FILE) == [
        "backhaul.toml:4: stores.main.api_key_file: secret is not UTF-8 text"
    ]


def test_an_invalid_path_is_named(tmp_path: Path) -> None:
    (said,) = complaints(tmp_path, f'{NO_KEY}api_key_file = "sec\\u0000ret"')
    assert "api_key_file: " in said
    assert "is not a path: embedded null byte" in said


def test_a_bad_secret_in_a_file_names_that_file(tmp_path: Path) -> None:
    secret(tmp_path, "canary key")
    assert complaints(tmp_path, KEY_FILE) == [
        "secret: stores.main.api_key: contains a space, a line break or a character"
        " outside ASCII; copy the secret again"
    ]


def test_a_path_must_be_text(tmp_path: Path) -> None:
    assert complaints(tmp_path, f"{NO_KEY}api_key_file = 3") == [
        "backhaul.toml:4: stores.main.api_key_file: must be a path in quotes"
    ]


def test_a_secret_and_its_file_together_are_refused(tmp_path: Path) -> None:
    secret(tmp_path, "canary-file")
    assert complaints(tmp_path, f'{STORE}api_key_file = "FOLDER/secret"') == [
        "backhaul.toml:5: stores.main.api_key_file: given together with api_key "
        "(keep one of the two)"
    ]


def test_a_file_named_by_the_environment_is_stronger_than_the_file(
    tmp_path: Path,
) -> None:
    named = {"BACKHAUL_STORES__MAIN__API_KEY_FILE": str(secret(tmp_path, "stronger"))}
    assert api_key(written(tmp_path, STORE), named) == "stronger"
    inline = {"BACKHAUL_STORES__MAIN__API_KEY": "stronger"}
    assert api_key(written(tmp_path, KEY_FILE), inline) == "stronger"


def test_the_environment_may_not_give_both(tmp_path: Path) -> None:
    name = "BACKHAUL_STORES__MAIN__API_KEY"
    environ = {name: "canary", f"{name}_FILE": str(secret(tmp_path, "canary"))}
    assert complaints(tmp_path, STORE, environ) == [
        f"{name}_FILE: stores.main.api_key_file: given together with api_key "
        "(keep one of the two)"
    ]


def test_credentials_rank_between_environment_and_file(tmp_path: Path) -> None:
    secret(tmp_path, "credential\n", 0o444, "stores_main_api_key")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert api_key(written(tmp_path, STORE), environ) == "credential"
    environ["BACKHAUL_STORES__MAIN__API_KEY"] = "stronger"
    assert api_key(written(tmp_path, STORE), environ) == "stronger"


def test_an_empty_credential_is_named(tmp_path: Path) -> None:
    secret(tmp_path, "", 0o400, "stores_main_webhook_secrets")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert complaints(tmp_path, STORE, environ) == [
        "stores_main_webhook_secrets: stores.main.webhook_secrets:"
        " stores_main_webhook_secrets is empty; write the secret to this file"
    ]


def test_a_connectors_secrets_are_concealed_and_may_be_in_files(tmp_path: Path) -> None:
    secret(tmp_path, "canary-token")
    text = f'{SCANNER}tokens_file = "FOLDER/secret"\npath_file = "kept"'
    settings = load_settings(
        written(tmp_path, text), {}, secret_options=scanner_secrets
    )
    assert settings.connectors["dock"].options == {
        "tokens": SecretStr("canary-token"),
        "path_file": "kept",
    }


def test_every_secret_is_known_to_the_redaction(tmp_path: Path) -> None:
    text = f'{SCANNER}path = "x"\ntokens = {{ a = "canary-a", b = ["canary-b", 3] }}'
    settings = load_settings(
        written(tmp_path, text), {}, secret_options=scanner_secrets
    )
    assert secret_values(settings) == [
        "canary-a",
        "canary-b",
        "canary-hook",
        "canary-key",
    ]


def test_no_repr_shows_a_secret(tmp_path: Path) -> None:
    text = f'{SCANNER}token = "canary-unknown"\ntokens = ["canary-token"]'
    settings = load_settings(
        written(tmp_path, text), {}, secret_options=scanner_secrets
    )
    shown = f"{settings!r} {settings} {settings.connectors['dock']!r}"
    assert "canary" not in shown
    assert "canary-token" not in repr(settings.connectors["dock"].options)
