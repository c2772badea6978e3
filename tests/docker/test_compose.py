"""The compose files agree with the Dockerfile, the settings and the commands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # no stubs are installed

from backhaul.push.dispatcher import STOP_SECONDS
from backhaul.settings import load_settings
from backhaul_reference.arguments import parser

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"
FILES = ("compose.yaml", "compose.production.yaml")
SECRETS = "/run/secrets"
STATE = "/var/lib/backhaul"


def compose(name: str) -> dict[str, Any]:
    found = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def services(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose(name)["services"]
    return found


ALL = [(name, service) for name in FILES for service in services(name)]


def instructions(word: str) -> list[str]:
    """Return what stands behind an instruction of the last stage of the Dockerfile."""
    text = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    last = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[-1]
    return re.findall(rf"^\s*{word} +(.+)$", last, re.MULTILINE)


def image_environment() -> dict[str, str]:
    pairs = [part for line in instructions("ENV") for part in shlex.split(line)]
    return dict(pair.split("=", 1) for pair in pairs)


@pytest.fixture(params=ALL, ids=lambda one: "-".join(one))
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    name, known_as = request.param
    found: dict[str, Any] = services(name)[known_as]
    return found | {"_file": compose(name), "_name": known_as}


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    return [tuple(one.split(":")[:2]) for one in service.get("volumes", ())]


def test_every_image_is_the_one_that_is_built_here(service: dict[str, Any]) -> None:
    assert service["image"] == "backhaul"
    builds = [
        one["build"] for one in service["_file"]["services"].values() if "build" in one
    ]
    for build in builds:
        context = FOLDER / build["context"]
        assert (context / build["dockerfile"]).samefile(FOLDER / "Dockerfile")
    assert len(builds) == 1


def test_the_user_of_the_container_cannot_change(service: dict[str, Any]) -> None:
    """The image says who: 8750, who owns what its volumes hold."""
    assert instructions("USER") == ["8750"]
    assert not {"user", "privileged", "cap_add"} & set(service)
    assert "--uid 8750" in instructions("RUN")[0]


def test_every_volume_is_declared_and_lies_where_the_image_expects_it(
    service: dict[str, Any],
) -> None:
    declared = set(service["_file"]["volumes"])
    used = {
        source
        for one in service["_file"]["services"].values()
        for source, _ in mounts(one)
        if not source.startswith("./")
    }
    assert used == declared
    known = {STATE, SECRETS, "/shop", "/etc/backhaul/backhaul.toml"}
    assert {target for _, target in mounts(service)} <= known
    assert instructions("VOLUME") == [STATE]
    assert image_environment()["BACKHAUL_STATE_DIR"] == STATE
    assert image_environment()["CREDENTIALS_DIRECTORY"] == SECRETS


def test_a_read_only_container_has_a_volume_for_its_state(
    service: dict[str, Any],
) -> None:
    if service["_name"] == "backhaul":
        assert service["read_only"] is True
        assert STATE in {target for _, target in mounts(service)}
        assert service["tmpfs"] == ["/tmp"]


def test_ports_are_those_of_the_settings_and_open_to_this_machine_only(
    service: dict[str, Any],
) -> None:
    options = vars(parser().parse_args([]))
    reference = {options["port"], options["control_port"]}
    exposed = {int(port) for line in instructions("EXPOSE") for port in line.split()}
    settings = load_settings(None, {"BACKHAUL_STATE_DIR": STATE} | SHOP)
    known = {settings.public.port, settings.admin.port} | reference
    assert settings.public.port in exposed
    for published in service.get("ports", ()):
        address, outside, inside = published.split(":")
        assert (address, outside) == ("127.0.0.1", inside)
        assert int(inside) in known
    assert f":{settings.admin.port}/healthz" in instructions("HEALTHCHECK")[0]


SHOP = {
    "BACKHAUL_STORES__MAIN__BASE_URL": "https://shop.example",
    "BACKHAUL_STORES__MAIN__API_KEY": "k",
}
CONFIGURATION = """
[public]
url = "https://hooks.example"
[stores.main]
base_url = "https://shop.example"
"""


@pytest.mark.parametrize("name", FILES)
def test_environment_and_secrets_are_settings(name: str, tmp_path: Path) -> None:
    (tmp_path / "stores_main_api_key").write_text("the-key")
    (tmp_path / "stores_main_api_key").chmod(0o400)
    config = tmp_path / "backhaul.toml"
    config.write_text(CONFIGURATION if "production" in name else "")
    told = services(name)["backhaul"].get("environment", {})
    environ = image_environment() | told | {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    settings = load_settings(config, environ)
    assert settings.stores["main"].api_key.get_secret_value() == "the-key"
    assert (settings.admin.host, str(settings.state_dir)) == ("0.0.0.0", STATE)  # noqa: S104 - inside a container
    for known_as, secret in compose(name).get("secrets", {}).items():
        assert (known_as, Path(secret["file"]).name) == ("stores_main_api_key",) * 2
        assert services(name)["backhaul"]["secrets"] == [known_as]


def test_commands_are_commands(service: dict[str, Any]) -> None:
    command = [str(word) for word in service.get("command", ["run"])]
    if service["_name"] == "reference":
        assert parser().parse_args(command[1:]).data == Path(STATE)
    elif service["_name"] == "backhaul" and "--config" in command:
        assert command[0] == "run"
        assert command[-1] in {target for _, target in mounts(service)}


def test_a_service_waits_for_a_condition_that_can_occur(
    service: dict[str, Any],
) -> None:
    for name, wait in service.get("depends_on", {}).items():
        other = service["_file"]["services"][name]
        if wait["condition"] == "service_healthy":
            assert other["healthcheck"]["test"][-1] == f"{STATE}/access.json"


def test_the_stop_timeout_is_long_enough_for_the_daemon() -> None:
    for name in FILES:
        grace = services(name)["backhaul"]["stop_grace_period"]
        assert int(grace.removesuffix("s")) > STOP_SECONDS


def test_a_daemon_in_earnest_is_up_again_after_a_reboot() -> None:
    """`on-failure` leaves down what a shutdown ended in order."""
    assert services("compose.production.yaml")["backhaul"]["restart"] in {
        *("always", "unless-stopped"),
    }


def test_the_key_that_is_passed_on_is_that_of_the_store(tmp_path: Path) -> None:
    """The script of the pair, with its two folders elsewhere."""
    (script,) = services("compose.yaml")["key"]["command"]
    for folder in ("shop", "secrets"):
        (tmp_path / folder).mkdir()
    access = {"stores": [{"api_key": "first"}, {"api_key": "second"}]}
    (tmp_path / "shop/access.json").write_text(json.dumps(access))
    for inside, here in (("/shop", "shop"), (SECRETS, "secrets")):
        assert f'"{inside}/' in script
        script = script.replace(f'"{inside}/', f'"{tmp_path / here}/')
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    key = tmp_path / "secrets/stores_main_api_key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("first", 0o600)
