"""`make check` finds planted weaknesses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from repository.test_makefile import make
from repository.tree import ROOT, read

BIN = Path(sys.executable).parent
PLANTED = {
    "S102": "exec(given)",
    "S103": "import os\n\nos.chmod(given, 0o777)",
    "S105": 'password = "correct horse"',
    "S113": "import httpx\n\nhttpx.get(given, timeout=None)",
    "S202": "import tarfile\n\ntarfile.open(given).extractall()",
    "S301": "import pickle\n\npickle.loads(given)",
    "S307": "eval(given)",
    "S311": "import random\n\nrandom.random()",
    "S314": "from xml.etree import ElementTree\n\nElementTree.parse(given)",
    "S324": "import hashlib\n\nhashlib.md5(given)",
    "S501": "import httpx\n\nhttpx.get(given, verify=False)",
    "S502": "import ssl\n\nssl.wrap_socket(ssl_version=ssl.PROTOCOL_SSLv3)",
    "S506": "import yaml\n\nyaml.load(given)",
    "S602": "import subprocess\n\nsubprocess.run(given, shell=True)",
    "S608": 'query = f"SELECT * FROM orders WHERE id = {given}"',
    "S701": "import jinja2\n\njinja2.Environment(autoescape=False)",
    "S704": "import markupsafe\n\nmarkupsafe.Markup(given)",
}
BY_BANDIT = ("S202", "S301", "S314", "S324", "S501", "S502", "S506", "S602", "S701")
"""What bandit is to find as well, by the options of `make check`."""


def run(*command: str | Path) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one file for each weakness, as if it were ours."""
    folder = tmp_path_factory.mktemp("planted") / "daemon"
    folder.mkdir()
    for code, source in PLANTED.items():
        (folder / f"{code}.py").write_text(f"{source}\n")
    return folder


def test_ruff_finds_each(planted: Path) -> None:
    options = ["--config", "pyproject.toml", "--output-format", "json", "--no-cache"]
    found = json.loads(run(BIN / "ruff", "check", *options, planted))
    named = {(Path(one["filename"]).stem, one["code"]) for one in found}
    assert {(code, code) for code in PLANTED} - named == set()


def test_bandit_finds_severe_problems(planted: Path) -> None:
    options = re.search(r"^BANDIT := (.*)$", read("Makefile"), re.MULTILINE)
    assert options is not None
    told = run(
        BIN / "bandit", *shlex.split(options[1]), "--format", "json", str(planted)
    )
    found = {Path(one["filename"]).stem for one in json.loads(told)["results"]}
    assert set(BY_BANDIT) - found == set()


@pytest.mark.parametrize("wrong", ["stop_grace_perod: 5s", "depends_on: {key: 1}"])
def test_an_unknown_compose_key_is_found(wrong: str, tmp_path: Path) -> None:
    options = re.search(r"^COMPOSE := (.*)$", read("Makefile"), re.MULTILINE)
    assert options is not None
    file = tmp_path / "compose.yaml"
    file.write_text(f"services: {{one: {{image: backhaul, {wrong}}}}}\n")
    told = run(BIN / "check-jsonschema", *shlex.split(options[1]), file)
    assert wrong.partition(":")[0] in told


def test_mypy_lets_nothing_go_untyped(tmp_path: Path) -> None:
    loose = tmp_path / "loose.py"
    loose.write_text("def f(given):\n    return given\n")
    options = ["--config-file", "pyproject.toml", "--cache-dir", str(tmp_path)]
    assert "[no-untyped-def]" in run(BIN / "mypy", *options, loose)


def test_all_of_them_are_run_over_all_that_is_shipped() -> None:
    steps = make("--dry-run", "check").stdout
    for step in ("ruff check\n", "mypy\n", "lint-imports\n", "hadolint docker/"):
        assert f"/{step}" in steps
    assert re.search(r"/bandit .* daemon connectors\n", steps)
    assert re.search(r"/check-jsonschema .* docker/compose\*\.yaml\n", steps)


def test_each_exempted_warning_states_its_reason() -> None:
    options = ["--recursive", "--line-number", "--include=*.py", "noqa: S"]
    told = run("grep", *options, "daemon", "connectors").splitlines()
    assert [line for line in told if not re.search(r"noqa: [\w, ]+ - \w", line)] == []
    assert told
