"""The Kubernetes manifests agree with its schemas, the image and the settings."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]  # no stubs are installed
from typer.main import get_command

from backhaul.cli.root import app
from backhaul.push.dispatcher import STOP_SECONDS
from backhaul.settings import load_settings
from docker.test_compose import FOLDER, SECRETS, STATE, image_environment, instructions
from docs.man_page import leaves

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = ("1.30", "1.35")
"""The schemas of an old and of a newer release."""
ROLES = {"receiver", "worker", "admin"}
Manifest = dict[str, Any]


def manifests() -> dict[str, dict[str, Manifest]]:
    """Return every manifest by kind and name."""
    found: dict[str, dict[str, Manifest]] = defaultdict(dict)
    for file in sorted((FOLDER / "kubernetes").glob("*.yaml")):
        for each in yaml.safe_load_all(file.read_text()):
            assert each["metadata"]["name"] not in found[each["kind"]]
            found[each["kind"]][each["metadata"]["name"]] = each
    return found


ALL = manifests()
DEPLOYMENTS = ALL["Deployment"]


@pytest.fixture(params=sorted(DEPLOYMENTS))
def pod(request: pytest.FixtureRequest) -> Manifest:
    found: Manifest = DEPLOYMENTS[request.param]["spec"]["template"]
    return found


@pytest.fixture
def container(pod: Manifest) -> Manifest:
    (found,) = pod["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(version: str) -> None:
    checked = [
        kubernetes_validate.validate(each, version, strict=True)
        for kind, named in ALL.items()
        for each in named.values()
        if kind != "Cluster"
    ]
    assert len(checked) >= 8


def test_a_commit_waits_for_a_replica_of_three_servers() -> None:
    """CloudNativePG has a schema of its own, which is not at hand."""
    (cluster,) = ALL["Cluster"].values()
    assert cluster["apiVersion"] == "postgresql.cnpg.io/v1"
    assert cluster["spec"]["instances"] == 3
    assert cluster["spec"]["postgresql"]["synchronous"] == {
        "method": "any",
        "number": 1,
        "dataDurability": "required",
    }
    made = cluster["spec"]["bootstrap"]["initdb"]
    assert (made["owner"], made["encoding"]) == ("backhaul", "UTF8")
    assert "GRANT pg_monitor TO backhaul" in made["postInitSQL"]


def test_the_daemon_understands_its_configuration(
    container: Manifest, pod: Manifest, tmp_path: Path
) -> None:
    (written,) = ALL["ConfigMap"].values()
    for name, text in secrets_of(pod).items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o440)
    config = tmp_path / "backhaul.toml"
    config.write_text(written["data"][config.name])
    environ = image_environment()
    assert environ["CREDENTIALS_DIRECTORY"] == SECRETS
    environ |= {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    environ |= {each["name"]: each["value"] for each in container["env"]}
    settings = load_settings(config, environ)
    assert settings.cluster.durability == "quorum"
    assert settings.database_name == "postgresql://backhaul@db-rw:5432/backhaul"
    assert settings.stores["main"].api_key.get_secret_value().startswith("REPLACE")
    assert len(settings.cluster.key) == 1
    assert settings.public.url == "https://hooks.example"
    assert settings.admin.host == "0.0.0.0"  # noqa: S104 - inside a pod
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["admin"] == settings.admin.port
    assert ports.get("public", settings.public.port) == settings.public.port
    assert str(settings.state_dir) == STATE


def secrets_of(pod: Manifest) -> dict[str, str]:
    """Return the files of the pod's secrets; CloudNativePG writes the database's."""
    (cluster,) = ALL["Cluster"]
    known = {name: each["stringData"] for name, each in ALL["Secret"].items()}
    known[f"{cluster}-app"] = {"uri": "postgresql://backhaul:pw@db-rw:5432/backhaul"}
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "secrets"]
    found: dict[str, str] = {}
    for source in volume["projected"]["sources"]:
        values = known[source["secret"]["name"]]
        paths = {
            each["key"]: each["path"] for each in source["secret"].get("items", ())
        }
        found |= {paths.get(key, key): value for key, value in values.items()}
    return found


def test_the_pod_writes_where_the_image_expects_it(
    container: Manifest, pod: Manifest
) -> None:
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts == {
        "state": STATE,
        "tmp": "/tmp",
        "configuration": "/etc/backhaul",
        "secrets": SECRETS,
    }
    assert {each["name"] for each in pod["spec"]["volumes"]} == set(mounts)
    assert container["args"][:3] == ["run", "--config", "/etc/backhaul/backhaul.toml"]
    assert [str(pod["spec"]["securityContext"]["runAsUser"])] == instructions("USER")


def test_the_pod_has_few_privileges(container: Manifest, pod: Manifest) -> None:
    """What the profile `restricted` of Kubernetes asks for, and a read-only root."""
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_the_probes_of_the_pod_use_the_admin_port(container: Manifest) -> None:
    asked = {
        name: container[f"{name}Probe"]["httpGet"]
        for name in ("startup", "liveness", "readiness")
    }
    assert {each["port"] for each in asked.values()} == {"admin"}
    assert {name: each["path"] for name, each in asked.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }


def test_the_pod_has_enough_time_to_stop(container: Manifest, pod: Manifest) -> None:
    (_, pause) = container["lifecycle"]["preStop"]["exec"]["command"]
    given = pod["spec"]["terminationGracePeriodSeconds"]
    assert given > STOP_SECONDS + int(pause)


def test_an_upgrade_and_a_drained_node_leave_enough() -> None:
    for name, each in DEPLOYMENTS.items():
        assert each["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
        assert each["spec"]["replicas"] >= 2
        budget = ALL["PodDisruptionBudget"][name]["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["selector"] == each["spec"]["selector"]


def test_every_selector_finds_its_pods() -> None:
    labels = [
        each["spec"]["template"]["metadata"]["labels"] for each in DEPLOYMENTS.values()
    ]
    for each in DEPLOYMENTS.values():
        (spread,) = each["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"] == each["spec"]["selector"]
        assert each["spec"]["selector"]["matchLabels"] in labels
    ports = {
        str(found["metadata"]["labels"]): {
            each["name"] for each in found["spec"]["containers"][0]["ports"]
        }
        for found in (each["spec"]["template"] for each in DEPLOYMENTS.values())
    }
    for service in ALL["Service"].values():
        targets = {each["targetPort"] for each in service["spec"]["ports"]}
        assert targets <= ports[str(service["spec"]["selector"])]


def test_together_they_have_every_role() -> None:
    given = [
        each["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in DEPLOYMENTS.values()
    ]
    roles = [words[words.index("--role") + 1].split(",") for words in given]
    assert sorted(chain(*roles)) == sorted(ROLES)


def test_the_daemon_knows_the_options_and_roles(
    container: Manifest, tmp_path: Path
) -> None:
    name, *words = container["args"]
    command = dict(leaves(get_command(app)))[name]
    given = command.make_context(name, words, resilient_parsing=True).params
    config = tmp_path / "backhaul.toml"
    config.write_text('[stores.main]\nbase_url = "https://x.example"\napi_key = "k"\n')
    url = {"BACKHAUL_DATABASE__URL": "postgresql://backhaul@db/backhaul"}
    roles = {"BACKHAUL_CLUSTER__ROLES": given["role"]}
    settings = load_settings(config, url | roles)
    assert sorted(settings.cluster.roles) == sorted(given["role"].split(","))
