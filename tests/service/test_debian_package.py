"""The Debian package is built, installed, upgraded and removed on a separate Debian."""

from __future__ import annotations

import json

import pytest

from scenes.waiting import await_true
from service.machine import machine

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(900)]

CONFIGURATION = """
cat > /etc/backhaul/backhaul.toml <<EOF
state_dir = "/var/lib/backhaul"
[public]
url = "http://127.0.0.1:8750"
[stores.main]
base_url = "http://127.0.0.1:8760"
EOF
"""
UNIT = "/usr/lib/systemd/system/backhaul.service"
KEY = "/etc/backhaul/secrets/stores/main_api_key"


def test_a_package_from_its_build_to_its_removal() -> None:
    with machine() as debian:
        built = debian.run("sh debian/build.sh", 300).split()[-1]
        said = debian.run(f"dpkg --install {built}", 120)
        assert "write /etc/backhaul/backhaul.toml" in said
        assert debian.run("dpkg --verify backhaul") == ""
        debian.run("systemctl start backhaul-reference")
        access = "/var/lib/backhaul-reference/access.json"
        text = await_true(lambda: debian.tried(f"cat {access}").stdout, "it runs", 60)
        key = json.loads(text)["stores"][0]["api_key"]
        debian.run(CONFIGURATION)
        debian.run(f"install -m 600 /dev/null {KEY}; echo {key} > {KEY}")
        debian.run("backhaul check-config; systemctl enable --now backhaul")
        assert "runs since" in debian.run("backhaul status")
        first = debian.show("backhaul", "MainPID")

        debian.run(f"dpkg --install {built}", 120)
        assert debian.show("backhaul", "MainPID") != first
        assert "runs since" in debian.run("backhaul status")

        debian.run("dpkg --purge backhaul", 60)
        assert debian.tried("systemctl is-active backhaul").stdout.strip() == "inactive"
        for path in ("/opt/backhaul", "/usr/bin/backhaul", UNIT):
            assert debian.tried(f"test ! -e {path}").returncode == 0, path
        assert debian.run("ls /var/lib/backhaul/backhaul.db; cat " + KEY) != ""
