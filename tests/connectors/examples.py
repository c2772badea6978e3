"""The examples of the connectors' documentation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs" / "connectors"


def documented(name: str) -> dict[str, Any]:
    """Return the one `[connectors.NAME]` table in the connector's page."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (table,) = tomllib.loads(example)["connectors"].values()
    assert isinstance(table, dict)
    return table
