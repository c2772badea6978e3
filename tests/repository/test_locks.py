"""The three lock files agree with each other and with pyproject.toml, offline."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from repository.tree import read

GROUPS = {"requirements.lock": set[str](), "requirements-dev.lock": {"build", "dev"}}
PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?P<rest>(?:.*\\\n)(?:.*\\\n)*.*)$",
    re.MULTILINE,
)
PROJECT = tomllib.loads(read("pyproject.toml"))
ALL_EXTRAS = set(PROJECT["project"]["optional-dependencies"])
EXTRAS = {
    "requirements.lock": ALL_EXTRAS - {"demo-cluster"},
    "requirements-dev.lock": ALL_EXTRAS,
}
LOCK = tomllib.loads(read("uv.lock"))


def locked() -> dict[str, dict[str, Any]]:
    """Return the packages of uv.lock by name, our own left out."""
    return {p["name"]: p for p in LOCK["package"] if "registry" in p["source"]}


def us() -> dict[str, Any]:
    """Return our own entry in uv.lock."""
    found: dict[str, Any]
    [found] = [p for p in LOCK["package"] if p["name"] == PROJECT["project"]["name"]]
    return found


def pins(export: str) -> dict[str, tuple[str, set[str]]]:
    """Return version and hashes by name, as an export pins them."""
    return {
        match["name"]: (
            match["version"],
            set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", match["rest"])),
        )
        for match in PIN.finditer(read(export))
    }


def closure(export: str) -> set[str]:
    """Return what an export's dependencies need, directly or not, by uv.lock."""
    entry = us()
    packages = locked()
    waiting = [*entry["dependencies"]]
    for extra in EXTRAS[export]:
        waiting += entry["optional-dependencies"][extra]
    for group in GROUPS[export]:
        waiting += entry["dev-dependencies"][group]
    needed: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        # An extra is a list of its own beside what the package always needs.
        for extra in ("", *wanted.get("extra", ())):
            if (wanted["name"], extra) in needed:
                continue
            needed.add((wanted["name"], extra))
            package = packages[wanted["name"]]
            lists = package.get("optional-dependencies", {}) if extra else package
            waiting += lists.get(extra or "dependencies", [])
    return {name for name, _ in needed}


def requirements(names: list[str]) -> list[tuple[str, str]]:
    """Return (name, specifier) pairs, in one spelling."""
    parsed = [Requirement(text) for text in names]
    return sorted((canonicalize_name(r.name), str(r.specifier)) for r in parsed)


def recorded(entries: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return (name, specifier) pairs as uv.lock records them, without their extra."""
    texts = [entry["name"] + entry.get("specifier", "") for entry in entries]
    return requirements(texts)


@pytest.mark.parametrize("export", GROUPS)
def test_an_export_pins_only_needed_packages(export: str) -> None:
    assert set(pins(export)) == closure(export)


@pytest.mark.parametrize("export", GROUPS)
def test_an_export_has_the_versions_and_hashes_of_the_lock(export: str) -> None:
    packages = locked()
    for name, (version, hashes) in pins(export).items():
        files = [*packages[name].get("wheels", []), packages[name].get("sdist")]
        assert version == packages[name]["version"]
        assert hashes == {file["hash"] for file in files if file}


def test_the_lock_was_made_from_these_requirements() -> None:
    metadata = us()["metadata"]
    groups = PROJECT["dependency-groups"]
    extras = PROJECT["project"]["optional-dependencies"]
    stated = [*PROJECT["project"]["dependencies"], *chain(*extras.values())]
    assert recorded(metadata["requires-dist"]) == requirements(stated)
    assert set(metadata["provides-extras"]) == set(extras)
    assert set(metadata["requires-dev"]) == set(groups)
    for group, texts in groups.items():
        assert recorded(metadata["requires-dev"][group]) == requirements(texts)
    assert LOCK["requires-python"] == PROJECT["project"]["requires-python"]


def test_packages_that_make_venv_needs_are_pinned() -> None:
    backend = [Requirement(text).name for text in PROJECT["build-system"]["requires"]]
    assert {"pip", "editables", *backend} <= set(pins("requirements-dev.lock"))


def test_every_address_is_the_public_index() -> None:
    for name in ("uv.lock", *GROUPS):
        addresses = re.findall(r"[a-z+]+://[^\s\"]+", read(name))
        hosts = {(urlsplit(a).scheme, urlsplit(a).hostname) for a in addresses}
        assert hosts <= {("https", "pypi.org"), ("https", "files.pythonhosted.org")}


@pytest.mark.parametrize("export", GROUPS)
def test_an_export_has_no_option_that_changes_where_packages_come_from(
    export: str,
) -> None:
    lines = read(export).splitlines()
    assert [line for line in lines if line.startswith("-")] == []
