"""`backhaul init` tests its input, and writes a configuration that works."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from backhaul.cli import context
from backhaul.cli.init import check_address
from scenes.daemon import UNUSED_ADDRESS, CommandResult, in_process
from scenes.terminal import Typist

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.reference_process import ReferenceProcess


@pytest.fixture
def key_file(platform: ReferenceProcess, tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(f"{platform.store().api_key}\n")
    return file


def init(folder: Path, url: str, key_file: Path, *more: str) -> CommandResult:
    folder.mkdir(exist_ok=True)
    given = ("--url", url, "--key-file", key_file, *more)
    return in_process("init", *given, config=folder / "backhaul.toml")


def files_in(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob("*") if each.is_file()]


def test_the_written_configuration_passes_its_check(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    said = init(folder, platform.public_url, key_file)
    assert said.code == 0, said.err
    config = folder / "backhaul.toml"
    checked = in_process("check-config", config=config)
    assert (checked.code, checked.err) == (0, "")
    settings = context.settings(config)
    assert settings.stores["main"].base_url == platform.public_url
    assert settings.public.url == "http://127.0.0.1:8750"
    assert settings.stores["main"].test_store, "its platform is on this machine"
    assert settings.state_dir == folder / "backhaul-data"


def test_the_daemon_listens_where_the_webhooks_arrive(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder, url = tmp_path / "new", "http://127.0.0.1:22001"
    said = init(folder, platform.public_url, key_file, "--webhook-url", url)
    assert said.code == 0, said.err
    public = context.settings(folder / "backhaul.toml").public
    assert (public.host, public.port, public.url) == ("127.0.0.1", 22001, url)


def test_the_key_is_in_a_file_that_only_the_owner_can_read(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder, key = tmp_path / "new", platform.store().api_key
    said = init(folder, platform.public_url, key_file, "--store", "shop_1")
    secret = folder / "secrets" / "stores" / "shop_1_api_key"
    assert secret.read_text() == f"{key}\n"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    assert key not in (folder / "backhaul.toml").read_text()
    assert key not in said.out + said.err


def test_the_next_commands_are_commands(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    said = init(folder, platform.public_url, key_file)
    lines = said.out.partition("The next three commands:\n")[2].splitlines()
    assert [line.split()[1] for line in lines] == ["run", "status", "doctor"]
    assert all(f"--config {folder / 'backhaul.toml'}" in line for line in lines)


def test_no_file_is_overwritten(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    assert init(folder, platform.public_url, key_file).code == 0
    config, secret = folder / "backhaul.toml", folder / "secrets/stores/main_api_key"
    config.write_text("# mine\n")
    again = init(folder, platform.public_url, key_file)
    assert (again.code, again.out) == (1, "")
    assert f"{config} and {secret} exist already" in again.err
    assert config.read_text() == "# mine\n"
    secret.unlink()
    again = init(folder, platform.public_url, key_file)
    assert f"{config} exists already" in again.err
    config.unlink()
    secret.write_text("mine\n")
    again = init(folder, platform.public_url, key_file)
    assert (again.code, again.out) == (1, "")
    assert f"{secret} exists already" in again.err
    assert (secret.read_text(), config.exists()) == ("mine\n", False)


def test_a_folder_that_is_missing_is_named(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    given = ("--url", platform.public_url, "--key-file", key_file)
    config = tmp_path / "none" / "backhaul.toml"
    said = in_process("init", *given, config=config)
    assert said.code == 1
    assert "none/secrets: cannot be written: No such file or directory" in said.err


def test_an_unreachable_address_writes_nothing(key_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    said = init(folder, UNUSED_ADDRESS.removesuffix("/hook"), key_file)
    assert (said.code, files_in(folder)) == (69, [])
    assert "127.0.0.1:9 cannot be connected to: Connection refused" in said.out
    assert "fix: correct the port of the URL" in said.out
    assert "nothing is written" in said.err


def test_a_server_without_tls_is_named(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    https = platform.public_url.replace("http:", "https:")
    said = init(folder, https, key_file)
    assert (said.code, files_in(folder)) == (69, [])
    assert "does not speak TLS (HTTPS) at this port" in " ".join(said.out.split())


def test_another_server_is_named(
    platform: ReferenceProcess, key_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    said = init(folder, f"{platform.public_url}/shop", key_file)
    assert (said.code, files_in(folder)) == (69, [])
    assert "answered 404, unlike the platform" in " ".join(said.out.split())


def test_a_refused_key_writes_nothing(
    platform: ReferenceProcess, tmp_path: Path
) -> None:
    folder, wrong = tmp_path / "new", tmp_path / "wrong"
    wrong.write_text("svc_live_wrong\n")
    said = init(folder, platform.public_url, wrong)
    assert (said.code, files_in(folder)) == (1, [])
    printed = " ".join(said.out.split())
    assert "the platform refuses the key (401 API_KEY_INVALID" in printed
    assert "and enter it here" in printed
    assert "backhaul-init-" not in printed, "the temporary folder is nobody's business"


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (
            ("--url", "http://shop.example"),
            "others on the network could read the API key",
        ),
        (("--url", "https://"), "must be a URL such as"),
        (("--store", "My Shop"), "use only lower-case letters, digits and _"),
        (("--webhook-url", "hooks"), "must be a URL such as"),
    ],
)
def test_an_invalid_value_is_refused_before_any_prompt(
    given: tuple[str, str],
    printed: str,
    platform: ReferenceProcess,
    key_file: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "new"
    said = init(folder, platform.public_url, key_file, *given)
    assert (said.code, files_in(folder)) == (2, [])
    assert printed in " ".join(said.err.replace("│", " ").split())


def test_without_a_terminal_the_missing_option_is_named(tmp_path: Path) -> None:
    said = in_process("init", config=tmp_path / "backhaul.toml")
    assert (said.code, said.out) == (1, "")
    assert "give --url" in said.err


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("shop.example", "https://shop.example"),
        ("https://shop.example/api/v1", "https://shop.example"),
        ("https://shop.example/api/v1/", "https://shop.example"),
        ("http://localhost:8760", "http://localhost:8760"),
    ],
)
def test_an_address_may_be_typed_as_people_do(typed: str, url: str) -> None:
    assert check_address(typed) == url


def test_http_to_another_machine_can_be_allowed() -> None:
    url = "http://shop.internal"
    assert check_address(url, allow_http=True) == url


def test_a_wrong_answer_at_a_terminal_is_prompted_for_again(
    platform: ReferenceProcess, tmp_path: Path
) -> None:
    config = tmp_path / "backhaul.toml"
    key = platform.store().api_key
    person = Typist("init", "--config", str(config))
    person.answer("URL of the store's platform: ", UNUSED_ADDRESS.removesuffix("/hook"))
    person.answer("URL of the store's platform [", platform.public_url)
    person.answer("invisible", "svc_live_wrong")
    person.answer("URL of the store's platform [", "")
    person.answer("invisible", key)
    person.answer("Webhook URL [", "https://hooks.example")
    assert person.end() == 0, person.seen
    assert "connection: 127.0.0.1:9 cannot be connected to" in person.seen
    assert "the platform refuses the key" in person.seen
    assert key not in person.seen
    settings = context.settings(config)
    assert settings.stores["main"].api_key.get_secret_value() == key
    assert settings.public.url == "https://hooks.example"
