"""The settings of a file drop."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from backhaul_connectors.file_drop.columns import (
    CancellationColumns,
    CancellationValues,
    FulfillmentColumns,
    FulfillmentValues,
    RowFilter,
    StockDeltaColumns,
    StockDeltaValues,
    StockLevelColumns,
)
from backhaul_connectors.file_drop.edi_settings import EdiSettings, check_export
from backhaul_connectors.file_drop.location_settings import LocationSettings
from backhaul_connectors.file_drop.presets import known_preset, with_preset
from backhaul_sdk.extras import require_extra
from backhaul_sdk.fields import checked_reason_map, zone_named

NOT_FOR_FILES = frozenset({"idna", "punycode", "undefined", "unicode_escape", "mbcs"})
DATA = (
    *(".csv", ".tsv", ".txt", ".xlsx", ".xls", ".xlsb", ".ods"),
    *(".json", ".jsonl", ".ndjson"),
    *(".edi", ".x12"),
)
"""Endings of files that are read; a marker cannot have one of them."""
OWN_FOLDERS = ("archive", "held", "rejected", "exported")
SECRETS = frozenset(
    {
        *("sftp_password", "sftp_key", "sftp_passphrase"),
        *("secret_key", "session_token", "service_account"),
        *("password", "imap_password"),
    }
)


class Settings(LocationSettings):
    """`[connectors.NAME]` with `type = "file_drop"`."""

    path: Path = Field(
        default=Path(),
        description="The drop folder; with sftp_host, on the server. Required without "
        "folder or imap.",
    )
    preset: Annotated[str, AfterValidator(known_preset)] = Field(
        default="",
        description="Name of a preset: settings for the files of a known program. Your"
        " own settings override them. `backhaul connectors presets` lists all.",
    )
    sftp_host: str = Field(
        default="",
        description="Name or address of an SFTP server; empty means a folder on this "
        "machine.",
    )
    sftp_port: int = Field(
        default=22, ge=1, le=65_535, description="Port of the SFTP server."
    )
    sftp_user: str = Field(default="", description="Name to log in with.")
    sftp_password: SecretStr | None = Field(
        default=None, description="Password to log in with."
    )
    sftp_key: SecretStr | None = Field(
        default=None,
        description="Private key to log in with, as text; sftp_key_file names its "
        "file.",
    )
    sftp_passphrase: SecretStr | None = Field(
        default=None, description="Passphrase of the private key."
    )
    sftp_host_key: str = Field(
        default="",
        description="The server's public key (ssh-ed25519 AAAA…), or its fingerprint "
        "(SHA256:…); several in lines of their own.",
    )
    sftp_known_hosts: Path | None = Field(
        default=None,
        description="File of known hosts, as ssh keeps it, in the place of "
        "sftp_host_key.",
    )
    exports: str = Field(
        default="",
        description="Folder below path for change notifications, one file for "
        "each; empty for none. `topics` says which.",
    )
    export_format: Literal["csv", "jsonl", "edifact", "x12"] = Field(
        default="csv",
        description="csv has the main columns, jsonl the whole document of each. "
        "edifact (ORDERS) and x12 (940) have new orders only.",
    )
    edi: EdiSettings = Field(
        default=EdiSettings(),
        description="Parties, codes and release of EDIFACT and X12 files.",
    )
    fulfillments: str = Field(
        default="fulfillments*.{csv,tsv,xlsx,xls,xlsb,ods,json,jsonl,zip}",
        description="Pattern of the names of fulfillment files; empty for none.",
    )
    cancellations: str = Field(
        default="cancellations*.{csv,tsv,xlsx,xls,xlsb,ods,json,jsonl,zip}",
        description="Pattern of the names of cancellation files; empty for none.",
    )
    stock_deltas: str = Field(
        default="stock-deltas*.{csv,tsv,xlsx,xls,xlsb,ods,json,jsonl,zip}",
        description="Pattern of the names of files of stock changes; empty for none.",
    )
    stock_levels: str = Field(
        default="stock-levels*.{csv,tsv,xlsx,xls,xlsb,ods,json,jsonl,zip}",
        description="Pattern of the names of files of stock levels; empty for none.",
    )
    fulfillment_columns: FulfillmentColumns = Field(
        default=FulfillmentColumns(), description="Column names of fulfillment files."
    )
    cancellation_columns: CancellationColumns = Field(
        default=CancellationColumns(), description="Column names of cancellation files."
    )
    stock_delta_columns: StockDeltaColumns = Field(
        default=StockDeltaColumns(),
        description="Column names of files of stock changes.",
    )
    stock_level_columns: StockLevelColumns = Field(
        default=StockLevelColumns(),
        description="Column names of files of stock levels.",
    )
    fulfillment_values: FulfillmentValues = Field(
        default=FulfillmentValues(),
        description="What stands for empty cells and absent columns of fulfillments.",
    )
    cancellation_values: CancellationValues = Field(
        default=CancellationValues(),
        description="What stands for empty cells and absent columns of cancellations.",
    )
    stock_delta_values: StockDeltaValues = Field(
        default=StockDeltaValues(),
        description="What stands for empty cells and absent columns of stock changes.",
    )
    fulfillment_rows: RowFilter = Field(
        default=RowFilter(),
        description="Rows of fulfillment files to take or leave out.",
    )
    cancellation_rows: RowFilter = Field(
        default=RowFilter(),
        description="Rows of cancellation files to take or leave out.",
    )
    stock_delta_rows: RowFilter = Field(
        default=RowFilter(),
        description="Rows of files of stock changes to take or leave out.",
    )
    stock_level_rows: RowFilter = Field(
        default=RowFilter(),
        description="Rows of files of stock levels to take or leave out.",
    )
    header_row: Literal["find"] | Annotated[int, Field(ge=0)] = Field(
        default="find",
        description="Line with the columns' names, from 1; find means the first of the "
        "first 20 rows that has them all, as does 0.",
    )
    header: tuple[str, ...] = Field(
        default=(),
        description="The columns' names, in order, of files that do not name them.",
    )
    quote: Literal['"', "'", ""] = Field(
        default='"',
        description='What stands around a text with delimiters or line ends; "" where '
        "quotation marks are plain text.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(),
        description="Columns that together name one stock movement, such as a document "
        "number; without them a movement is a row of one particular file. In other "
        "files they tell rows apart that are equal otherwise.",
    )
    same_content: Literal["hold", "apply", "ignore"] = Field(
        default="hold",
        description="What is done with a file of stock changes, without key columns, "
        "whose content equals that of a file of another name: it is held for an "
        "operator, applied as a second event, or passed over.",
    )
    sheet: str = Field(
        default="",
        description="Name of the sheet of a spreadsheet; empty means the first one "
        "that is not hidden.",
    )
    delimiter: Literal["auto", ",", ";", "\t", "|"] = Field(
        default="auto",
        description='What stands between two cells; "auto" decides by the first line.',
    )
    encoding: str = Field(
        default="auto",
        description="How letters are stored: a name that Python knows, such as cp850 "
        'or shift_jis; "auto" finds it out, and refuses letters that leave a choice.',
    )
    same_sku: Literal["refuse", "sum"] = Field(
        default="refuse",
        description=(
            "What several rows of one SKU in one stock list mean. `sum`: each row"
            " is one part of the stock, and Backhaul adds up the rows. `refuse`:"
            " Backhaul uses none of these rows."
        ),
    )
    absent: Literal["keep", "zero"] = Field(
        default="keep",
        description=(
            "What a stock list says of a SKU that it leaves out and that an earlier"
            " list named: `keep` its stock, or `zero`. Only a list of which all"
            " rows can be used says so."
        ),
    )
    absent_limit: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description=(
            "Share of these SKUs, from 0 to 1, above which `absent` waits for an"
            " operator."
        ),
    )
    negative_is_zero: bool = Field(
        default=True,
        description="Whether a stock level below 0 is taken as 0; else it is refused.",
    )
    reason_map: Annotated[dict[str, str], AfterValidator(checked_reason_map)] = Field(
        default_factory=dict,
        description="What the words for a reason mean; `*` is any other.",
    )
    decimal: Literal["auto", ".", ","] = Field(
        default="auto",
        description='What stands before decimals: with "," 1.000 is a thousand; '
        '"auto" refuses what could be either.',
    )
    date_format: str = Field(
        default="",
        description="How dates are written, as for strptime, such as %d.%m.%Y; empty "
        "means 2026-03-31 or 2026-03-31T14:05.",
    )
    timezone: str = Field(
        default="UTC",
        description="Time zone of times that do not name theirs, such as Asia/Kolkata.",
    )
    unchanged_seconds: float = Field(
        default=1.0,
        ge=0,
        description="Seconds for which a file must not change before it is read.",
    )
    incomplete_seconds: float = Field(
        default=60.0,
        ge=0,
        description="Seconds for which a file must not change before it is read "
        "although its end is missing: the line end of its last row, the last bracket "
        "of a JSON array, or the end record of a spreadsheet.",
    )
    require_done_file: bool = Field(
        default=False,
        description="Whether a file is read only when its marker (done_file) lies "
        "beside it.",
    )
    done_file: str = Field(
        default="{name}.done",
        description="Name of the marker that declares a file complete: {name} stands "
        "for the file's name, {stem} for its name without the ending, as in {stem}.ok.",
    )
    unfinished: tuple[str, ...] = Field(
        default=("*.tmp", "*.part", "*.partial", "*.filepart", "*.crdownload", "~$*"),
        description="Patterns of the names that files have while they are written; "
        "such files are left alone. Names with a dot in front always are.",
    )
    max_bad_share: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of unusable rows, from 0 to 1, above which a file of five "
        "or more rows is held as a whole.",
    )
    max_file_mb: int = Field(
        default=500,
        ge=1,
        description="Largest file that is read, in megabytes; a larger one is held.",
    )
    max_unzipped_mb: int = Field(
        default=50,
        ge=1,
        description="Largest size of a spreadsheet when unpacked, in megabytes: 50 are "
        "about 300,000 rows of three cells. A larger one is held.",
    )
    copies: Path | None = Field(
        default=None,
        description="Folder for nameless files while a file is read: copies of "
        "spreadsheets and remote files, and the orders of shipments; unset means the "
        "system's folder for temporary files.",
    )
    batch_rows: int = Field(
        default=500,
        ge=1,
        le=10_000,
        description="Rows per transaction.",
    )

    @property
    def header_line(self) -> int:
        """The line with the columns' names; 0 if it is to be found."""
        return 0 if self.header_row == "find" else self.header_row

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        return with_preset(given)

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        zone_named(name)
        return name

    @field_validator("encoding")
    @classmethod
    def _is_a_codec(cls, name: str) -> str:
        try:
            return name if name == "auto" else codec_name(name)
        except (LookupError, ValueError):
            problem = f"{name!r} is not a text encoding; write one such as cp850"
            raise ValueError(problem) from None

    @field_validator("done_file")
    @classmethod
    def _names_its_file(cls, pattern: str) -> str:
        try:
            marker = pattern.format(name="NAME.csv", stem="NAME")
        except (ValueError, LookupError, AttributeError):
            marker = ""
        is_data = marker.lower().endswith(DATA)
        if "NAME" not in marker or is_data or "/" in marker:
            problem = (
                "must contain {name} or {stem} and some more characters, such as"
                " {name}.done"
            )
            raise ValueError(f"{pattern!r} {problem}")
        return pattern

    @field_validator("exports")
    @classmethod
    def _is_one_folder(cls, name: str) -> str:
        if "/" in name or name.startswith(".") or name in OWN_FOLDERS:
            reserved = ", ".join(OWN_FOLDERS)
            raise ValueError(
                f"{name!r} is refused; write the name of one folder, such as outbox,"
                f" without / and without a dot first. Backhaul itself uses {reserved}"
            )
        return name

    @field_validator("sftp_host_key")
    @classmethod
    def _can_be_compared(cls, text: str) -> str:
        keys = [line for line in text.splitlines() if line]
        if all(line.startswith("SHA256:") for line in keys):
            return text
        require_extra("sftp")
        import asyncssh  # slow, and an extra

        for line in keys:
            try:
                if not line.startswith("SHA256:"):
                    asyncssh.import_public_key(line)
            except asyncssh.KeyImportError:
                problem = f"{line[:40]!r} is not a public key; write ssh-ed25519 AAAA…"
                raise ValueError(problem) from None
        return text

    @model_validator(mode="after")
    def _can_export(self) -> Settings:
        if self.exports:
            check_export(self.export_format, self.edi)
        return self

    @model_validator(mode="after")
    def _names_one_place(self) -> Settings:
        given = self.model_fields_set
        if not self.folder and self.imap is None and "path" not in given:
            raise ValueError("path is missing; set path, folder, or imap for a mailbox")
        others = {"path", "sftp_host"}
        if self.folder and (found := sorted(others & given)):
            raise ValueError(f"folder excludes {' and '.join(found)}; remove these")
        self.check_mailbox(others | {"exports", "folder", "require_done_file"})
        return self

    @model_validator(mode="after")
    def _is_whole(self) -> Settings:
        if not self.sftp_host:
            if self.sftp_user or self.sftp_password or self.sftp_key:
                raise ValueError("sftp_host is missing; set it to the server's name")
            return self
        require_extra("sftp", user="sftp_host")
        if not self.sftp_user:
            raise ValueError("sftp_user is missing; set it to the server's user name")
        if not self.sftp_password and not self.sftp_key:
            raise ValueError(
                "sftp_password and sftp_key are both missing; set one of them"
            )
        return self


def codec_name(name: str) -> str:
    """Return Python's name of an encoding. Raises LookupError if unknown."""
    found = codecs.lookup(name)
    if not getattr(found, "_is_text_encoding", True) or found.name in NOT_FOR_FILES:
        raise LookupError(name)
    # A mark at the beginning of a file is skipped in any case.
    return "utf-8" if found.name == "utf-8-sig" else found.name
