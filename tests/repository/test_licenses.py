"""Every package of an installation has a known license that allows distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files, metadata

import pytest

from repository.test_locks import pins

PERMISSIVE = {
    "0BSD",
    "Apache 2 License",
    "Apache 2.0",
    "Apache License",
    "Apache License, Version 2.0",
    "Apache-2.0",
    "Apache-2.0 AND BSD-2-Clause",
    "Apache-2.0 AND MIT",
    "Apache-2.0 OR BSD-3-Clause",
    "3-Clause BSD License",
    "BSD License",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC License",
    "MIT",
    "MIT License",
    "MIT-0",
    "PSF-2.0",
    "PSFL",
    "Public Domain",
}
NAMED = {
    # Used as they come, and each can be replaced: what these licenses ask for.
    "asyncssh": "EPL-2.0 OR GPL-2.0-or-later",
    "certifi": "MPL-2.0",
    "paho-mqtt": "EPL-2.0 OR BSD-3-Clause",
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}
"""Packages whose license asks for more than to be named."""
IN_A_FILE = {"imapclient": ("COPYING", "Redistributions in binary form must reproduce")}
"""Packages that name their license only by its text: where it is, and words of it."""
ELSEWHERE = {"colorama", "pip", "win32-setctime"}
"""Pinned for other systems, or gone once it has installed the others."""


def license_of(package: str) -> str | None:
    """Return what a package says of its license, None where it is not installed."""
    try:
        said = metadata(package)
    except PackageNotFoundError:
        return None
    classified = [
        line.rpartition(" :: ")[2]
        for line in said.get_all("Classifier") or ()
        if line.startswith("License :: ")
    ]
    expressed, stated = said.get_all("License-Expression"), said.get_all("License")
    # Some have their whole license there: its first line names it.
    (found, *_) = (expressed or stated or [""])[0].splitlines() or [""]
    return found or "; ".join(classified)


@pytest.mark.parametrize("package", sorted(pins("requirements.lock")))
def test_a_package_of_the_installation_has_a_known_license(package: str) -> None:
    found = license_of(package)
    if package in IN_A_FILE:
        name, words = IN_A_FILE[package]
        (text,) = (f.read_text() for f in files(package) or () if f.name == name)
        assert words in text
    elif found is None:
        assert package in ELSEWHERE, "it is pinned, and not installed"
    elif package in NAMED:
        assert found == NAMED[package]
    else:
        assert found in PERMISSIVE


def test_no_license_is_excused_for_a_package_that_is_gone() -> None:
    assert set(NAMED) <= set(pins("requirements.lock"))


@pytest.mark.parametrize(("package", "told"), [("trytond", "GPL-3.0-or-later")])
def test_a_license_that_binds_us_is_recognized(package: str, told: str) -> None:
    """It is used in tests and beside the demo, and is no part of an installation."""
    assert license_of(package) == told
    assert told not in PERMISSIVE
    assert package not in pins("requirements.lock")
