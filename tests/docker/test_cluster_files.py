"""The files of a cluster, checked without running it: compose, Patroni and HAProxy."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from base64 import b64encode
from contextlib import AsyncExitStack
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]  # no stubs are installed
from aiohttp import web
from aiohttp.test_utils import TestServer

from backhaul.settings import load_settings
from docker.test_compose import FOLDER, SECRETS, STATE, compose, image_environment
from scenes.ports import accepts, free_ports
from scenes.postgres import BINARIES, PASSWORD, USER
from scenes.requirements import require
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.settings import Settings
    from scenes.postgres_databases import PostgresDatabases

FILE = compose("compose.cluster.yaml")
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
REPLICAS = [name for name in SERVICES if name.startswith("backhaul")]
NODES = [name for name in SERVICES if name.startswith("pg")]
STORES = [name for name in SERVICES if name.startswith("etcd")]
CLUSTER = FOLDER / "cluster"
KEY = b64encode(bytes(32)).decode()
OURS = {"backhaul", "backhaul-postgres"}
URL = re.compile(r"postgresql://backhaul:%s@\S+?(?=')")


def patroni() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTER / "patroni.yml").read_text())
    return found


def settings(folder: Path, replica: str) -> Settings:
    """Load the configuration as a replica finds it; `folder` stands for the secrets."""
    service = SERVICES[replica]
    (written,) = URL.findall((FOLDER / "README.md").read_text())
    values = {"database_url": written.replace("%s", "canary"), "cluster_key": KEY}
    for name in service["secrets"]:
        (folder / name).write_text(values.get(name, f"the-{name}"))
        (folder / name).chmod(0o400)
    environ = image_environment() | service["environment"]
    assert environ["CREDENTIALS_DIRECTORY"] == SECRETS
    environ["CREDENTIALS_DIRECTORY"] = str(folder)
    return load_settings(CLUSTER / "backhaul.toml", environ)


@pytest.mark.parametrize("replica", REPLICAS)
def test_a_replica_understands_its_configuration(replica: str, tmp_path: Path) -> None:
    found = settings(tmp_path, replica)
    assert found.cluster.durability == "quorum"
    assert found.stores["main"].api_key.get_secret_value() == "the-stores_main_api_key"
    assert [each.get_secret_value() for each in found.cluster.key] == [KEY]
    assert found.public.url == "https://hooks.example"
    place = urlsplit(str(found.place))
    assert place.netloc.rpartition("@")[2].split(",") == NODES
    assert place.query == "target_session_attrs=read-write"
    (network,) = FILE["networks"]["replicas"]["ipam"]["config"]
    assert found.public.trusted_proxies == (network["subnet"],)
    assert found.admin.trusted_proxies == (network["subnet"],)
    assert ip_network(network["subnet"]).is_private


def test_there_are_three_of_each_which_differ_in_their_names_only() -> None:
    for names in (REPLICAS, NODES, STORES):
        assert len(names) == 3
        same = [re.sub(names[n], "NAME", str(SERVICES[names[n]])) for n in range(3)]
        same = [re.sub(r"state\d", "state", each) for each in same]
        same = [re.sub(r"(etcd\d=http://)?NAME(:2380)?", "NAME", e) for e in same]
        assert len({re.sub(r"etcd\d=\S+?2380,?|NAME,?", "", e) for e in same}) == 1


def test_foreign_images_have_a_version() -> None:
    images = {service["image"] for service in SERVICES.values()}
    base = re.findall(r"^FROM (\S+)", (FOLDER / "Dockerfile.patroni").read_text(), re.M)
    assert len(images) == 4
    for image in (images - OURS) | set(base):
        assert re.search(r":v?\d+(\.\d+)*[-\w]*$", image), image


def test_secrets_and_volumes_are_declared_and_used() -> None:
    used = {name for each in SERVICES.values() for name in each.get("secrets", ())}
    assert used == set(FILE["secrets"])
    assert all(
        secret == {"file": f"./secrets/{name}"}
        for name, secret in FILE["secrets"].items()
    )
    mounted = [one.split(":") for each in SERVICES.values() for one in each["volumes"]]
    named = [source for source, *_ in mounted if not source.startswith("./")]
    assert sorted(named) == sorted(FILE["volumes"])
    files = {source for source, *_ in mounted if source.startswith("./")}
    assert all((FOLDER / source).is_file() for source in files)
    for replica in REPLICAS:
        assert SERVICES[replica]["volumes"][0].endswith(f":{STATE}")


def test_each_service_is_watched_and_starts_again() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped"
        assert "healthcheck" in service or (name in REPLICAS and "HEALTHCHECK" in text)
        for other, wait in service.get("depends_on", {}).items():
            assert wait == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other]


def test_only_the_balancer_is_reached_from_outside() -> None:
    assert FILE["networks"]["database"] == {"internal": True}
    for name, service in SERVICES.items():
        assert ("ports" in service) == (name == "haproxy")
        assert ("database" in service["networks"]) == (name != "haproxy")
    published = [port.split(":") for port in SERVICES["haproxy"]["ports"]]
    assert {address for address, *_ in published} == {"127.0.0.1"}


def test_a_commit_waits_for_a_replica() -> None:
    dcs = patroni()["bootstrap"]["dcs"]
    assert dcs["synchronous_mode"] in {True, "quorum"}
    assert dcs["synchronous_mode_strict"] is True
    assert dcs["postgresql"]["parameters"]["synchronous_commit"] == "on"
    assert dcs["ttl"] >= dcs["loop_wait"] + 2 * dcs["retry_timeout"]


def test_patroni_understands_its_configuration(tmp_path: Path) -> None:
    """Its own check looks for the programs, and at the addresses."""
    given = patroni()
    assert given["etcd3"]["hosts"] == [f"{name}:2379" for name in STORES]
    image = (FOLDER / "Dockerfile.patroni").read_text()
    (version,) = re.findall(r"^FROM \S+/postgres:(\d+)", image, re.MULTILINE)
    assert given["postgresql"]["bin_dir"] == f"/usr/lib/postgresql/{version}/bin"
    assert int(version) >= 15
    given["postgresql"]["bin_dir"] = str(BINARIES)
    given["postgresql"]["data_dir"] = str(tmp_path / "data")
    environ = dict(SERVICES[NODES[0]]["environment"])
    environ |= {name: f"127.0.0.2:{environ[name].rpartition(':')[2]}" for name in _AT}
    environ |= dict.fromkeys(_PASSWORDS, "secret")
    written = tmp_path / "patroni.yml"
    with socket.create_server(("127.0.0.1", 0)) as etcd:
        given["etcd3"]["hosts"] = [f"127.0.0.1:{etcd.getsockname()[1]}"]
        written.write_text(yaml.safe_dump(given))
        done = subprocess.run(
            [*_PATRONI, "--validate-config", "--ignore-listen-port", written],
            env=os.environ | environ,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_PATRONI = (sys.executable, "-m", "patroni")
_AT = ("PATRONI_RESTAPI_CONNECT_ADDRESS", "PATRONI_POSTGRESQL_CONNECT_ADDRESS")
_PASSWORDS = ("PATRONI_SUPERUSER_PASSWORD", "PATRONI_REPLICATION_PASSWORD")


def test_the_start_of_a_node_knows_its_passwords(tmp_path: Path) -> None:
    text = (CLUSTER / "start-patroni.sh").read_text()
    assert all(f"{name}=" in text for name in _PASSWORDS)
    read = set(re.findall(rf"{SECRETS}/(\w+)", text)) | {"postgres_backhaul"}
    assert read == set(SERVICES[NODES[0]]["secrets"])
    (tmp_path / "patroni").write_text("#!/bin/sh\nenv; echo $1")
    (tmp_path / "patroni").chmod(0o755)
    for name in read:
        (tmp_path / name).write_text(f"the-{name}\n")
    done = subprocess.run(
        ["sh", "-c", text.replace(SECRETS, str(tmp_path))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PATRONI_REPLICATION_PASSWORD=the-postgres_replication\n" in done.stdout
    assert "PATRONI_SUPERUSER_PASSWORD=the-postgres_superuser\n" in done.stdout
    assert f"{done.stdout.splitlines()[-1]}:ro" in SERVICES[NODES[0]]["volumes"][1]


@pytest.mark.programs
@pytest.mark.postgres
def test_the_database_is_made_for_backhaul(
    postgres_server: PostgresDatabases, tmp_path: Path
) -> None:
    assert patroni()["bootstrap"]["post_init"] == "create-database.sh"
    (tmp_path / "postgres_backhaul").write_text('it\'s \\a "password"\n')
    port = postgres_server.server.port
    server = f"host=127.0.0.1 port={port} user={USER} dbname=postgres"
    script = (CLUSTER / "create-database.sh").read_text()
    # The server of the tests has a role of that name already.
    script = re.sub(r"\b(ROLE|TO|OWNER|DATABASE) backhaul\b", r"\1 made", script)
    path = f"{BINARIES}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-c", script, "create-database.sh", server],
        env={"PATH": path, "PGPASSWORD": PASSWORD, "SECRETS": str(tmp_path)},
        check=True,
    )
    with psycopg.connect(
        host="127.0.0.1",
        port=port,
        user="made",
        dbname="made",
        password='it\'s \\a "password"',
    ) as connection:
        (encoding,) = connection.execute("SHOW server_encoding").fetchone() or ()
        assert encoding == "UTF8"
        connection.execute("CREATE SCHEMA one")
        connection.execute("SET ROLE pg_monitor")


def test_the_balancer_knows_every_replica(tmp_path: Path) -> None:
    text = (CLUSTER / "haproxy.cfg").read_text()
    found = settings(tmp_path, REPLICAS[0])
    for port in (found.public.port, found.admin.port):
        servers = re.findall(rf"server (\S+) (\S+):{port}$", text, re.MULTILINE)
        assert {name for name, _ in servers} == set(REPLICAS)
        assert all(name == address for name, address in servers)
        assert f"bind :{port}" in text
    assert f"check port {found.admin.port}" in text
    (seconds,) = re.findall(r"timeout server (\d+)s", text)
    assert int(seconds) > 2 * found.cluster.hold


def test_haproxy_understands_its_configuration() -> None:
    done = subprocess.run(
        [require("haproxy"), "-c", "-f", CLUSTER / "haproxy.cfg"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr


async def test_haproxy_sends_a_webhook_to_a_replica_that_answers(
    tmp_path: Path,
) -> None:
    """Two of three replicas end before they answer."""
    cut = 0

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal cut
        cut += bool(await reader.read(1))
        writer.close()

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    ports = free_ports(5)
    text = (CLUSTER / "haproxy.cfg").read_text()
    places = ("bind :8750", "bind :8751", *(f"{name}:8750" for name in REPLICAS))
    for place, port in zip(places, ports, strict=True):
        begin = "bind " if place.startswith("bind") else ""
        text = text.replace(place, f"{begin}127.0.0.1:{port}")
    text = re.sub(r"backhaul\d:8751", "127.0.0.1:1", text)
    text = re.sub(r".*(httpchk|default-server|bind 127.0.0.1:8404).*\n", "", text)
    (tmp_path / "haproxy.cfg").write_text(text)
    async with AsyncExitStack() as stack:
        for port in ports[2:4]:
            server = await asyncio.start_server(end, "127.0.0.1", port)
            await stack.enter_async_context(server)
        app = web.Application()
        app.router.add_post("/webhooks/main", answer)
        running = TestServer(app, port=ports[4])
        await stack.enter_async_context(running)
        command = [require("haproxy"), "-f", str(tmp_path / "haproxy.cfg")]
        balancer = await asyncio.create_subprocess_exec(*command)
        try:
            await until(lambda: accepts(ports[0]), "HAProxy listens")
            async with httpx.AsyncClient() as client:
                for _ in range(6):
                    url = f"http://127.0.0.1:{ports[0]}/webhooks/main"
                    sent = await client.post(url, content=b"x" * 2_600)
                    assert sent.status_code == 200
        finally:
            balancer.kill()
            await balancer.wait()
    assert cut >= 2
