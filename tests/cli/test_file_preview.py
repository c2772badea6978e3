"""`connectors preview` shows a file row by row, and proposes settings that work."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect import registry
from connectors.layouts import OWN, text
from scenes.daemon import Office, in_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from connectors.layouts import FileLayout
    from scenes.daemon import CommandResult

WIDTH = 80
LIST = text(
    "Versandliste;;;;",
    "Bestell-Nr.;Sendungsnummer;Paketdienst;Artikel-Nr.;Menge",
    "1001;JJD0099000000001;DHL;LS-S;2",
    "1002;JJD0099000000002;DHL;LS-M;two",
    ";;Summe:;;2",
)


def preview(path: Path, *options: object, config: Path | None = None) -> CommandResult:
    return in_process("connectors", "preview", path, *options, config=config)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Versand_31.csv"
    path.write_bytes(LIST)
    return path


@pytest.fixture
def office() -> Iterator[Office]:
    office = Office("http://127.0.0.1:9", "svc_live_0123456789abcdef")
    yield office
    office.remove()


def section_of(said: CommandResult) -> str:
    """Return the proposed section, as an operator copies it."""
    return said.out.partition("# Proposed settings")[2].partition("\n")[2]


def test_each_row_is_shown_with_its_reason(file: Path) -> None:
    said = preview(file)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "Versand_31.csv: fulfillments; 1 used, 1 REFUSED, 1 left out"
    (used,) = [line for line in lines if line.split()[:2] == ["3", "used"]]
    assert "1001" in used
    assert "2 \N{MULTIPLICATION SIGN} LS-S" in used
    refused = next(n for n, line in enumerate(lines) if "REFUSED   1002" in line)
    assert lines[refused + 1].strip() == "quantity must be a whole number, not 'two'"
    assert "the row is a total" in said.out
    assert file.read_bytes() == LIST


def test_the_output_has_80_columns(file: Path) -> None:
    assert max(map(len, preview(file).out.splitlines())) <= WIDTH


@pytest.mark.parametrize("layout", OWN, ids=lambda layout: layout.name)
def test_a_proposed_section_reads_the_file(layout: FileLayout, tmp_path: Path) -> None:
    path = tmp_path / layout.name
    path.write_bytes(layout.content)
    first = preview(path, "--json").json()
    (section,) = tomllib.loads(section_of(preview(path)))["connectors"].values()
    assert section.pop("type") == "file_drop"
    assert registry.check("file_drop", section) == []
    assert {k: v for k, v in first["settings"].items() if v != {}} == {
        key: value for key, value in section.items() if key != "path"
    }
    assert first["held"] == ""
    assert "refused" not in first["counts"]


def test_a_connection_shows_what_it_would_import(office: Office) -> None:
    path = office.drop / "fulfillments-1.csv"
    path.write_bytes(
        text("order,tracking_company,tracking_number", "1,DHL,T1", ",DHL,T2")
    )
    said = preview(path, "--connector", "courier", config=office.config)
    assert "fulfillments; 1 used, 1 REFUSED" in said.out
    assert "the order is empty" in said.out
    assert "# Proposed settings" not in said.out


def test_a_name_that_no_pattern_matches_is_an_error(office: Office) -> None:
    path = office.drop / "parcels.csv"
    path.write_bytes(text("order,tracking_company,tracking_number", "1,DHL,T1"))
    said = preview(path, "--connector", "courier", config=office.config)
    assert said.code != 0
    assert "no pattern of the settings matches the name 'parcels.csv'" in said.err
    assert "fulfillments = 'fulfillments*" in said.err


def test_a_connection_that_imports_no_files_is_an_error(
    office: Office, file: Path
) -> None:
    said = preview(file, "--connector", "bench", config=office.config)
    assert said.code != 0
    assert "connection bench has the type scanner, which imports no files" in said.err


def test_a_preset_shows_its_file(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(
        text(
            "Reference1,Tracking Number,Void Indicator",
            "1001,1Z999AA10000000001,N",
            "1002,1Z999AA10000000002,Y",
        )
    )
    found = preview(path, "--preset", "ups-worldship", "--json").json()
    states = [(row["line"], row["state"]) for row in found["rows"]]
    assert states == [(2, "used"), (3, "left out")]
    assert found["rows"][0]["values"]["tracking_company"] == "UPS"
    assert found["rows"][1]["reason"] == "fulfillment_rows leaves the row out"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--preset", "nobodys"), "'nobodys' does not exist; choose one of:"),
        (
            ("--preset", "ups-worldship", "--connector", "courier"),
            "give --preset or --connector, not both",
        ),
    ],
)
def test_wrong_options_are_errors(
    file: Path, options: tuple[str, ...], problem: str
) -> None:
    said = preview(file, *options)
    assert said.code != 0
    assert problem in " ".join(said.err.split())


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    said = preview(tmp_path / "nothing.csv")
    assert said.code != 0
    assert "nothing.csv cannot be opened: No such file or directory" in said.err


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "list.pdf.csv"
    path.write_bytes(b"%PDF-1.7\n")
    said = preview(path)
    assert "HELD: the file is a PDF document; export the data as CSV" in said.out


def test_refused_rows_below_the_first_rows_are_shown(tmp_path: Path) -> None:
    rows = [f"A{number};1" for number in range(40)]
    path = tmp_path / "stock.csv"
    path.write_bytes(text("sku;quantity", *rows[:30], "B;x", *rows[30:]))
    found = preview(path, "--rows", "2", "--json").json()
    shown = [(row["line"], row["state"]) for row in found["rows"]]
    assert shown == [(2, "used"), (3, "used"), (32, "refused")]
    assert found["counts"] == {"used": 40, "refused": 1}


def test_presets_are_listed_with_their_documents() -> None:
    said = in_process("connectors", "presets", config=None)
    assert "ups-worldship (file_drop): UPS WorldShip" in said.out
    assert "  https://www.stoneedge.com/help/" in said.out
    assert "shippo (courier): Shippo" in said.out
    listed: list[dict[str, Any]] = in_process(
        "connectors", "presets", "--json", config=None
    ).json()["presets"]
    assert all(each["sources"] and each["settings"] for each in listed)
