"""The service under a real systemd, from its installation to its restore."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.ingest.secret_rings import secret_fingerprint
from scenes.waiting import await_true
from scenes.wheels import ROOT
from service.machine import machine

if TYPE_CHECKING:
    from service.machine import Machine

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(900)]

STORE = "http://127.0.0.1:8760"
OURS = "http://127.0.0.1:8750"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LOADER = Path(__file__).with_name("loading.py")
CONFIG = "/etc/backhaul/backhaul.toml"
WATCHED = "/etc/systemd/system/backhaul.service.d/watched.conf"
WRONG = "status=78/CONFIG"
PAUSE_SECONDS = 10
KNOCK = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as stream:
    stream.sendall(b"POST /webhooks/main HTTP/1.1\\r\\nHost: hooks\\r\\n"
                   b"Content-Length: 2\\r\\n\\r\\n{}")
    print(stream.makefile().readline().strip(), end="")
"""
"""Delivers a webhook without a signature, and waits for its answer without end."""


def lines_of(page: str, **words: str) -> list[str]:
    """Return what a how-to says to type, with some of its words replaced."""
    text = "\n".join(BLOCK.findall((ROOT / "docs/how-to" / page).read_text("utf-8")))
    for word, with_ in words.items():
        assert word in text, word
        text = text.replace(word, with_)
    return text.splitlines()


def pid(service: Machine) -> str:
    return service.show("backhaul", "MainPID")


def test_a_service_from_its_installation_to_its_restore() -> None:
    with machine() as service:
        install(service)
        check_what_it_may_reach(service)
        check_the_command(service)
        check_reload(service)
        check_restarts_under_load(service)
        check_watchdog(service)
        check_wrong_configuration(service)
        rotate(service)
        upgrade_twice(service)
        back_up_and_restore(service)


def install(service: Machine) -> None:
    """Type the how-to, line by line; the store is the reference server."""
    words = {"https://shop.example": STORE, "https://hooks.example": OURS}
    typed = lines_of("install-as-a-service.md", **words)
    first = typed.index("systemctl daemon-reload") + 1
    for line in typed[:first]:
        service.run(line, 240)
    key = start_store(service)
    for line in typed[first:]:
        said = service.run(line.replace("YOUR-KEY", key))
        if line in {"backhaul status", "backhaul @shop2 status"}:
            assert "runs since" in said
    assert service.show("backhaul", "StatusText") == f"receives at {OURS}"
    assert "daemon.started" in service.journal()


def start_store(service: Machine) -> str:
    """Start the reference server as a service; return its key."""
    service.run("systemctl start backhaul-reference")
    access = "/var/lib/backhaul-reference/access.json"

    def look() -> str:
        return service.tried(f"cat {access}").stdout

    return str(json.loads(await_true(look, "it runs", 60))["stores"][0]["api_key"])


def check_what_it_may_reach(service: Machine) -> None:
    """The key is nowhere but in its credential; the process is nobody special."""
    number = pid(service)
    key = service.run("cat /etc/backhaul/secrets/stores/main_api_key").strip()
    assert key not in service.run(f"tr '\\0' '\\n' < /proc/{number}/environ")
    assert key not in service.run(f"cat {CONFIG}")
    assert key not in service.journal()
    status = service.run(f"cat /proc/{number}/status")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert service.run(f"stat -c %U /proc/{number}").strip() == "backhaul"
    assert service.run("stat -c %a /var/lib/backhaul").strip() == "700"


def check_the_command(service: Machine) -> None:
    """It keeps who typed, and knows the instances apart."""
    add = "echo correct-horse | SUDO_USER=asha backhaul users add ravi --stdin"
    for typed, who in ((add, "asha"), ("backhaul users remove ravi", "root")):
        service.run(typed)
        newest = "SELECT who FROM audit ORDER BY id DESC LIMIT 1"
        said = json.loads(service.run(f'backhaul query --json "{newest}"'))
        assert said[0]["who"].startswith(f"{who} (uid ")
    service.run("systemctl disable --now backhaul@shop2")
    assert "runs since" not in service.run("backhaul @shop2 status")
    assert "runs since" in service.run("backhaul status")


def check_reload(service: Machine) -> None:
    number = pid(service)
    service.run(f"echo 'colour = 1' >> {CONFIG}; systemctl reload backhaul")
    await_true(lambda: "reload.refused" in service.journal(), "it refuses")
    assert "stores.main.colour" in service.journal()
    service.run(f"sed -i /colour/d {CONFIG}")
    service.run(f"printf '[log]\\nlevel = \"DEBUG\"\\n' >> {CONFIG}")
    service.run("systemctl reload backhaul")
    await_true(lambda: "in force now: log.level" in service.journal(), "it reloads")
    assert pid(service) == number
    assert service.show("backhaul", "ActiveState") == "active"


def check_restarts_under_load(service: Machine) -> None:
    """Webhooks come without a pause: none is lost, none refused."""
    given = service.root / "var/lib/backhaul/secrets/main"
    store = json.loads(
        (service.root / "var/lib/backhaul-reference/access.json").read_text()
    )["stores"][0]["id"]
    loader = subprocess.Popen(
        [*service.inside("-n"), sys.executable, LOADER, given.read_text(), store],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{ROOT}/tests:{ROOT}/daemon"},
    )
    assert loader.stdout is not None
    assert loader.stdout.readline() == "answered\n"
    before = pid(service)
    for _ in range(2):
        service.run("systemctl restart backhaul")
        assert service.show("backhaul", "Result") == "success"
    assert pid(service) != before
    told: dict[str, Any] = json.loads(loader.communicate("\n", timeout=300)[0])
    assert told["statuses"] == {"200": told["sent"]}
    assert told["sent"] > 100
    per_second = told["sent"] / told["seconds"]
    sys.stdout.write(f"{told['sent']} webhooks, {per_second:.0f} a second\n")
    stored = service.run(
        'backhaul query --json "SELECT count(DISTINCT body) AS n FROM events'
        " WHERE instr(body, 'ord_load_')\""
    )
    assert json.loads(stored)[0]["n"] == told["sent"]
    assert service.journal().count("daemon.stopped") == 2


def check_watchdog(service: Machine) -> None:
    """One that hangs is ended, with where it hung, and started again."""
    service.run(f"mkdir -p $(dirname {WATCHED})")
    service.run(f"printf '[Service]\\nWatchdogSec=4\\n' > {WATCHED}")
    service.run("systemctl daemon-reload; systemctl restart backhaul")
    hung = pid(service)
    service.run(f"kill -STOP {hung}")

    def look() -> bool:
        alive = service.show("backhaul", "SubState") == "running"
        return alive and pid(service) not in {hung, "0"}

    await_true(look, "it is started again", 60)
    told = service.journal()
    assert "Failed with result 'watchdog'" in told
    assert "most recent call first" in told
    service.run(f"rm {WATCHED}; systemctl daemon-reload")


def check_wrong_configuration(service: Machine) -> None:
    """A webhook has it tried again and again, in peace; the address stays open."""
    service.run(f"cp {CONFIG} /tmp/good; echo nonsense >> {CONFIG}")
    before = service.journal().count(WRONG)
    assert service.tried("systemctl restart backhaul").returncode != 0
    assert service.show("backhaul", "ExecMainStatus") == "78"
    began = time.monotonic()
    waiting = subprocess.Popen(
        [*service.inside("-n"), sys.executable, "-c", KNOCK, "8750"],
        stdout=subprocess.PIPE,
        text=True,
    )
    tries = 6  # more than systemd's own limit of five
    failed = before + tries
    await_true(lambda: service.journal().count(WRONG) >= failed, "it tries", 240)
    assert time.monotonic() - began > (tries - 2) * PAUSE_SECONDS
    assert service.show("backhaul.socket", "ActiveState") == "active"
    service.run(f"cp /tmp/good {CONFIG}; systemctl restart backhaul")
    assert waiting.communicate(timeout=60)[0] == "HTTP/1.1 401 Unauthorized"


def rotate(service: Machine) -> None:
    """An own secret comes and goes beside the platform's; the key is put anew."""
    old, new = (secrets.token_hex(16) for _ in range(2))
    gone = secret_fingerprint(old.encode())
    key = service.run("cat /etc/backhaul/secrets/stores/main_api_key").strip()
    words = {"OLD-SECRET": old, "NEW-SECRET": new, "3d269a69": gone, "NEW-KEY": key}
    for line in lines_of("rotate-a-secret.md", **words):
        service.run(line)
    listed = json.loads(service.run("backhaul secrets list --json"))
    states = {row["fingerprint"]: row["state"] for row in listed}
    assert states.pop(gone) == "dropped"
    assert states.pop(secret_fingerprint(new.encode())) == "accepted"
    assert "accepted" in states.values()


def upgrade_twice(service: Machine) -> None:
    """To the same version: every line can be typed again."""
    typed = lines_of("upgrade.md")
    for _ in range(2):
        for line in typed[: typed.index("systemctl restart backhaul") + 1]:
            service.run(line, 240)
    assert "runs since" in service.run("backhaul status")


def back_up_and_restore(service: Machine) -> None:
    for line in lines_of("back-up-and-restore.md"):
        service.run(line)
    assert "runs since" in service.run("backhaul status")
    aside = service.run("ls /var/lib/backhaul")
    assert "backhaul.db.before-restore-" in aside
