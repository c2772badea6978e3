"""docs/api.md names every endpoint that the daemon serves."""

from __future__ import annotations

import os

from docs.api_page import PAGE, page


def test_the_table_of_endpoints_is_current() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page(), encoding="utf-8")
    current = PAGE.read_text(encoding="utf-8") == page()
    assert current, "run UPDATE_DOCS=1 pytest tests/docs"
