"""Everything that README and the other pages refer to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from backhaul.cli.root import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(r"(?:`|bin/)backhaul ([a-z][a-z-]*)", text)
    known = set(get_command(app).commands)  # type: ignore[attr-defined]  # it is a group
    assert set(named) - known == set()


def test_a_database_restored_by_litestream_is_private_and_removed_again() -> None:
    """It writes what anybody may read, and all the persons of the mirror are in it."""
    page = ROOT / "docs/how-to/back-up-and-restore.md"
    lines = page.read_text("utf-8").splitlines()
    found = [
        re.fullmatch(r"(.*)litestream restore -o (\S+) .*", line) for line in lines
    ]
    made = [match.groups() for match in found if match]
    assert len(made) == 2
    for user, file in made:
        assert user == "runuser -u backhaul -- "
        assert file.startswith("/var/lib/backhaul/")
        assert f"rm {file}*" in lines


def test_the_page_of_the_command_line_names_every_command() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    known = get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    listed = [name for name, command in known.items() if not command.hidden]
    assert [name for name in listed if f"`backhaul {name}" not in page] == []


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs/README.md"
    links = re.findall(r"\]\(([^)#:]+)\)", index.read_text("utf-8"))
    linked = {(index.parent / link).resolve() for link in links}
    apart = {ROOT / "docs/decisions", ROOT / "docs/examples"}
    pages = [p for p in ROOT.glob("docs/**/*.md") if not apart & set(p.parents)]
    assert [str(page) for page in pages if page not in {index, *linked}] == []


def test_the_list_of_decisions_has_every_page_under_its_title() -> None:
    folder = ROOT / "docs/decisions"
    pages = sorted(folder.glob("[0-9]*.md"))
    titles = [
        page.read_text("utf-8").split("\n")[0].removeprefix("# ") for page in pages
    ]
    entries = [
        f"* [{page.name[:4]} {title}]({page.name})"
        for page, title in zip(pages, titles, strict=True)
    ]
    listed = (folder / "README.md").read_text("utf-8").splitlines()
    assert [line for line in listed if line.startswith("* ")] == entries


def test_every_folder_of_the_daemon_is_on_the_map() -> None:
    drawn = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    parts = [p for p in (ROOT / "daemon/backhaul").iterdir() if _is_part(p)]
    assert [p.name for p in parts if p.name not in drawn] == []


def _is_part(path: Path) -> bool:
    if path.name.startswith("__") and path.name != "__main__.py":
        return False
    return path.is_dir() or path.suffix == ".py"
