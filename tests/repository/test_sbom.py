"""The SBOM lists every package of an installation with its hash."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from packaging.utils import canonicalize_name

from repository.test_locks import pins
from repository.tree import ROOT

# The tool takes half a minute: before a release, with `make faults`.
pytestmark = [pytest.mark.faults, pytest.mark.long]


def test_every_pinned_package_is_listed_with_its_version_and_hashes() -> None:
    command = [sys.executable, "-m", "cyclonedx_py", "requirements"]
    command += ["--pyproject", "pyproject.toml", "requirements.lock"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    parts = json.loads(made.stdout)["components"]
    listed = {
        canonicalize_name(part["name"]): (
            part["version"],
            {
                f"sha256:{each['content']}"
                for reference in part.get("externalReferences", ())
                for each in reference.get("hashes", ())
            },
        )
        for part in parts
    }
    assert listed == pins("requirements.lock")
