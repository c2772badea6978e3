"""Writes configurations for tests and reads what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import ConfigurationError
from backhaul.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STORE = """\
[stores.main]
base_url = "https://shop.example"
api_key = "canary-key"
webhook_secrets = ["canary-hook"]
"""


def written(folder: Path, text: str) -> Path:
    """Write the configuration; FOLDER in it stands for the folder."""
    file = folder / "backhaul.toml"
    file.write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    return file


def secret(folder: Path, text: str, mode: int = 0o600, name: str = "secret") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def complaints(
    folder: Path,
    text: str,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> list[str]:
    """Return the findings as a person reads them, the folder's path left out."""
    file = written(folder, text)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, environ or {}, **options)
    return str(caught.value).replace(f"{folder}/", "").splitlines()
