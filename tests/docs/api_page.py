"""The table of endpoints in docs/api.md, made of the table that the daemon serves."""

from __future__ import annotations

from pathlib import Path

from backhaul.admin.api.routes import ENDPOINTS

PAGE = Path(__file__).resolve().parents[2] / "docs/api.md"
BEGIN, END = "<!-- endpoints -->\n", "<!-- end of endpoints -->"


def page() -> str:
    """Return the page with a current table."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def table() -> str:
    """Return a row for each endpoint."""
    rows = ["| request | scope | what it does |", "|---|---|---|"]
    for each in ENDPOINTS:
        summary = (each.handler.__doc__ or "").partition("\n")[0].rstrip(".")
        scope = each.needs or "none"
        rows.append(f"| `{each.method} {each.path}` | {scope} | {summary} |")
    return "\n".join(rows) + "\n"
