"""Detects the format and the text encoding of a file.

UTF-8 and UTF-16 are recognized. Other text is Windows-1252 if it reads well so; if not,
exactly one other encoding must read well. A wrong guess would print nonsense on a
customer's page, so no such letter is accepted while several encodings are possible.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from enum import Enum
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile, ZipFile

from msgspec import Struct, field

from backhaul_connectors.file_drop.csv_reader import (
    BOM,
    MAX_ROW_BYTES,
    shown,
)
from backhaul_connectors.file_drop.edi.syntax import syntax_of
from backhaul_connectors.file_drop.files import FileUnreadable
from backhaul_connectors.file_drop.settings import codec_name
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from typing import BinaryIO

    from charset_normalizer import CharsetMatch

    from backhaul_connectors.file_drop.files import ReadableFile
    from backhaul_connectors.file_drop.settings import Settings


ANY_BYTE = "cp437"
"""Every byte is a letter or sign of it, and those of ASCII are what they are."""
READ_IN_PLACE = frozenset({"utf-8", "cp1252", ANY_BYTE})
"""Encodings whose lines can be read directly; others are copied to UTF-8 first."""
WITHIN = 0.03
"""Encodings are a choice if their score is within this of the best one."""
MOST_SHOWN = 4
FEWEST_EASTERN = 4
"""Fewer characters of an Eastern script may be Western ones."""
LONGEST_RUN = 2
"""Accented letters that follow each other in the languages of Windows-1252."""

_ODD = frozenset("ƒˆ˜¨¸¯‰†‡¦¬¶¢£¥÷×±¹ºª¼½¾´•‹›…")  # noqa: RUF001 - signs, not letters
"""Signs that are never next to a letter."""
_BETWEEN = frozenset("'·\u00a0\u00ad")
"""Signs that may be between two letters."""
_BEHIND = frozenset("™®©²³€")
"""Signs that no letter follows."""
_BEFORE = frozenset("„‚¿¡")  # noqa: RUF001 - signs, not letters
"""Signs that follow no letter."""
_APOSTROPHE = "\u2019"
_DOUBLE = re.compile("[“”„]")
_FOREIGN = re.compile(r"[þÞðÐýÝšŠžŽ¤]|õ(?!e)|[Èìù](?=\w)")
"""Read as Windows-1252, texts in its neighbours' encodings have these letters."""
_EAST = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"})
_KOREAN = frozenset({"cp949", "euc_kr", "johab", "iso2022_kr"})
_EASTERN = re.compile("big5|cp9[345]|euc|gb|hz|iso2022|johab|shift")
"""Encodings of the East, in which two bytes of a Western word can be one letter."""
_COMMON = ("cp932", "shift_jis", "gb18030", "cp1250", "iso8859-2", "cp1251", "cp850")
"""Encodings that programs write most often, first among several plausible ones."""
_WORDS = re.compile(r"[^\s,;|\t\"]+")
_CELLS = re.compile(r"[^\n,;|\t]+")
HEAD_BYTES = 1_024
SAVE_AS = "save it as .xlsx, or as CSV UTF-8"
MOST_PARTS = 3
"""Most names of an archive in a message."""
OLD_SHEETS = (
    b"\xd0\xcf\x11\xe0",
    *(b"\x09\x08\x10\x00", b"\x09\x08\x08\x00", b"\x09\x04\x06\x00"),
    b"\x09\x02\x06\x00",
)
"""The first bytes of XLS files, and of spreadsheets with a password."""
XLSX_NAMES = (".xlsx", ".xlsm")
SHEET_NAMES = (*XLSX_NAMES, ".xls", ".xlsb", ".ods")
BY_START = {
    b"\x1f\x8b": "is compressed with gzip; unpack it, and drop the file that is inside",
    b"BZh": "is compressed with bzip2; unpack it, and drop the file that is inside",
    b"\xfd7zXZ": "is compressed with xz; unpack it, and drop the file that is inside",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it, and drop the file inside",
    b"7z\xbc\xaf": "is a 7z archive; unpack it, and drop the files that are inside",
    b"Rar!": "is a RAR archive; unpack it, and drop the files that are inside",
    b"%PDF": "is a PDF document; export the data as CSV",
    b"{\\rtf": "is a text document (RTF); export the data as CSV",
    b"SQLite format 3": "is a database; export the data as CSV",
    b"PAR1": "is a Parquet file; export the data as CSV",
    b"\x89PNG": "is a picture; export the data as CSV",
    b"\xff\xd8\xff": "is a picture; export the data as CSV",
    b"II*\x00": "is a picture; export the data as CSV",
}
MARKUP = (
    (
        b"urn:schemas-microsoft-com:office:spreadsheet",
        "a spreadsheet of 2003 in XML",
    ),
    (b"<html", "an HTML page, as some programs write it under the name .xls"),
    (b"<table", "an HTML table, as some programs write it under the name .xls"),
    (b"<!doctype html", "an HTML page; a login or error page may have been saved"),
    (b"<?xml", "an XML document"),
)
ZIP = b"PK\x03\x04"
SHEET_PARTS = ("[Content_Types].xml", "xl/", "_rels/")
"""Prefixes of the names of an XLSX file's parts."""


STEP_LINES = 20_000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF32_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
SAMPLE_BYTES = 16_384
"""How many bytes of non-ASCII lines are used to detect the encoding."""


class FileDigest(Struct):
    """The sha256 and the encoding of a file, computed in steps."""

    offset: int = 0
    utf8_lines: int = 0
    other_lines: int = 0
    start: bytes = b""
    sample: bytes = b""
    """Lines with characters beyond ASCII."""
    _sha256: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def encoding(self) -> str:
        """The encoding, by a mark at the beginning or by a vote.

        Without a mark it is UTF-8 if most lines beyond ASCII are UTF-8. Empty if
        unknown.
        """
        if self.start in UTF32_MARKS:
            return "utf-32"
        if self.start.startswith(UTF16_MARKS):
            return "utf-16"
        halves = self.start[::2], self.start[1::2]
        # An empty half of each of the first letters.
        if len(self.start) == 4 and any(halves[0]) != any(halves[1]):
            return "utf-16-le" if any(halves[0]) else "utf-16-be"
        marked = self.start.startswith(BOM)
        return "utf-8" if marked or self.utf8_lines >= self.other_lines else ""

    def step(self, file: ReadableFile) -> bool:
        """Read on; return True if there may be more."""
        before = self.offset
        with file.open() as stream:
            stream.seek(before)
            self.take(stream)
        return self.offset > before

    def take(self, stream: BinaryIO) -> None:
        """Read the next lines of a stream."""
        lines = iter(lambda: stream.readline(MAX_ROW_BYTES), b"")
        for line in islice(lines, STEP_LINES):
            self._take(line)

    def _take(self, line: bytes) -> None:
        self.start += line[: 4 - len(self.start)]
        self.offset += len(line)
        self._sha256.update(line)
        if line.isascii():
            return
        self.sample += line[: SAMPLE_BYTES - len(self.sample)]
        try:
            line.decode("utf-8")
            self.utf8_lines += 1
        except UnicodeDecodeError:
            self.other_lines += 1


class DetectedEncoding(NamedTuple):
    """A file's encoding; `doubt` says why only ASCII may be used."""

    encoding: str
    doubt: str = ""


def encoding_of(digest: FileDigest, settings: Settings) -> DetectedEncoding:
    """Return the encoding of a file.

    If it is ambiguous, ASCII characters are read all the same: most files have other
    characters only in columns that are not needed.
    """
    if settings.encoding != "auto":
        return DetectedEncoding(codec_name(settings.encoding))
    if found := digest.encoding:
        return DetectedEncoding(found)
    try:
        return DetectedEncoding(guessed(digest.sample))
    except EncodingUndecided as error:
        return DetectedEncoding(ANY_BYTE, str(error))


class EncodingUndecided(Exception):
    """The encoding is ambiguous; the text names the choices and the setting."""


def guessed(sample: bytes) -> str:
    """Return the encoding of lines that are not UTF-8. Raises EncodingUndecided."""
    text = sample.decode("cp1252", "replace")
    if reads_well(text, "cp1252") and not _FOREIGN.search(text):
        return "cp1252"
    close = _close_matches(sample)
    texts = {str(each) for each in close}
    if len(texts) == 1:
        return codec_name(close[0].encoding)
    raise EncodingUndecided(_choice(close))


def _close_matches(sample: bytes) -> list[CharsetMatch]:
    # It takes a tenth of a second to import, and most files never need it.
    from charset_normalizer import from_bytes

    matches = [each for each in from_bytes(sample) if _is_possible(each)]
    best = min((each.chaos for each in matches), default=0.0)
    return [each for each in matches if each.chaos <= best + WITHIN]


def possible_encodings(sample: bytes) -> list[str]:
    """Return the plausible encodings of lines that are not UTF-8, common ones first."""
    names = [codec_name(each.encoding) for each in _close_matches(sample)]
    common = [each for each in _COMMON if each in names]
    return list(dict.fromkeys((*common, *names)))


def _is_possible(match: CharsetMatch) -> bool:
    return reads_well(str(match), match.encoding)


def _choice(matches: list[CharsetMatch]) -> str:
    shown = dict.fromkeys(
        f"{_first_word(str(each))} in {each.encoding}" for each in matches[:MOST_SHOWN]
    )
    could = f"; it could be {', '.join(shown)}" if shown else ""
    return (
        f"the encoding of the letters outside ASCII is uncertain{could}; set"
        " encoding, such as cp850 or shift_jis, or save the file as CSV UTF-8"
    )


def _first_word(text: str) -> str:
    words = _WORDS.findall(text)
    return next((word[:40] for word in words if not word.isascii()), "")


def reads_well(text: str, encoding: str) -> bool:
    """Return True if a text looks like human writing in the right encoding."""
    if _EASTERN.match(encoding) and not _is_eastern(text, encoding):
        return False
    if any(len(_DOUBLE.findall(cell)) % 2 for cell in _CELLS.findall(text)):
        return False
    return all(_is_word(word) for word in _WORDS.findall(text) if not word.isascii())


def _is_eastern(text: str, encoding: str) -> bool:
    """Return True if all non-ASCII letters are of the encoding's script."""
    letters = [c for c in text if c.isalpha() and not c.isascii()]
    scripts = {_script(c) for c in letters}
    if len(letters) < FEWEST_EASTERN or any(map(_is_mixed, _WORDS.findall(text))):
        return False
    return "HANGUL" in scripts if encoding in _KOREAN else scripts <= _EAST


def _is_mixed(word: str) -> bool:
    """Return True if a word mixes small ASCII letters with other letters."""
    if word.isascii():
        return False
    return any(c.isascii() and c.islower() for c in word)


def _is_word(word: str) -> bool:
    if any(_is_strange(letter) for letter in word):
        return False
    around = ["", *word, ""]
    triples = zip(around, around[1:], around[2:], strict=False)
    return _has_one_script(word) and all(_fits(*each) for each in triples)


def _is_strange(letter: str) -> bool:
    kind = unicodedata.category(letter)
    return kind in ("Cc", "Cn", "Co", "Cs") or letter == "\ufffd"


def _fits(before: str, letter: str, after: str) -> bool:
    """Return True if a character may be between these two; "" is the end."""
    if letter.isascii():
        return True
    if letter.isalpha():
        # Capitals begin words, or are among capitals.
        return not (letter.isupper() and before.isalpha() and _is_lower(before, after))
    beside, behind = before.isalpha() or after.isalpha(), after.isalpha()
    if letter in _ODD:
        return not beside
    if beside and any(_is_sign(c) for c in (before, after)):
        return False
    if letter in _BEHIND:
        return not behind
    if letter in _BEFORE:
        return not before.isalpha()
    if letter == _APOSTROPHE:
        return before.isalpha() or not behind
    return letter in _BETWEEN or not (before.isalpha() and behind)


def _is_sign(letter: str) -> bool:
    return bool(letter) and not letter.isascii() and not letter.isalpha()


def _is_lower(before: str, after: str) -> bool:
    return before.islower() or after.islower()


def _has_one_script(word: str) -> bool:
    """Return True if the letters beyond plain ASCII are of one script."""
    scripts = [_script(c) for c in word if not c.isascii() and c.isalpha()]
    if "HALFWIDTH" in scripts:
        return False
    if set(scripts) <= _EAST:
        return True
    return len(set(scripts)) == 1 and not _has_long_run(word, scripts[0])


def _has_long_run(word: str, script: str) -> bool:
    run = longest = 0
    for letter in word:
        run = run + 1 if letter.isalpha() and not letter.isascii() else 0
        longest = max(longest, run)
    mixed = any(
        a.isalpha() and a.isascii() and b.isalpha() and not b.isascii()
        for a, b in (*pairwise(word), *pairwise(reversed(word)))
    )
    if script == "LATIN":
        return longest > LONGEST_RUN
    # No word mixes Latin letters with another alphabet.
    return mixed


def _script(letter: str) -> str:
    return unicodedata.name(letter, "?").split()[0]


class FileFormat(Enum):
    """How the content of a file is stored."""

    TEXT = "text"
    XLSX = "XLSX"
    BINARY = "XLS, XLSB or ODS"
    EDI = "EDIFACT or X12"


def format_of(stream: BinaryIO, name: str) -> FileFormat:
    """Return the format by the content. Raises FileUnreadable if it is not supported.

    The name must fit: a spreadsheet needs the name of one. Many programs write text
    under the name .xls.
    """
    lower = name.lower()
    is_sheet = lower.endswith(SHEET_NAMES)
    head = stream.read(HEAD_BYTES)
    for start, what in BY_START.items():
        if head.startswith(start):
            raise FileUnreadable(f"the file {what}")
    if syntax_of(head) is not None:
        return FileFormat.EDI
    plain = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    if plain.startswith(b"<"):
        raise FileUnreadable(
            f"the file is {_markup(plain.lower())}; open the file and {SAVE_AS}"
        )
    if head.startswith((*OLD_SHEETS, ZIP)) and (missing := missing_extra("excel")):
        raise FileUnreadable(
            f"the file is a spreadsheet, and reading it needs {missing}; or save the"
            " file as CSV UTF-8"
        )
    if head.startswith(OLD_SHEETS):
        return _named(FileFormat.BINARY, ".xls", is_sheet=is_sheet)
    if head.startswith(ZIP):
        return _archive_format(stream, is_sheet=is_sheet)
    if head.startswith(b"PK"):
        raise FileUnreadable(f"the file is a damaged or empty archive; {SAVE_AS}")
    if is_sheet and not lower.endswith(".xls"):
        raise FileUnreadable(_no_sheet(plain))
    return FileFormat.TEXT


def _named(found: FileFormat, ending: str, *, is_sheet: bool) -> FileFormat:
    """Return the format. Raises FileUnreadable if the name is not a spreadsheet's."""
    if not is_sheet:
        raise FileUnreadable(
            "the file is a spreadsheet, not CSV; give the file a name that ends in"
            f" {ending}, or save the file as CSV UTF-8"
        )
    return found


def _markup(plain: bytes) -> str:
    return next((what for mark, what in MARKUP if mark in plain), "an XML document")


def _no_sheet(plain: bytes) -> str:
    if plain[:1].isascii() and plain[:1].isalnum():
        return "the file is text, not a spreadsheet; give it a name that ends in .csv"
    return f"the file is not a spreadsheet; {SAVE_AS}"


def _archive_format(stream: BinaryIO, *, is_sheet: bool) -> FileFormat:
    # What reads spreadsheets takes a third of a second to import.
    from backhaul_connectors.file_drop.xlsx import check_directory

    try:
        check_directory(stream)
        with ZipFile(stream) as archive:
            names = archive.namelist()
    except (BadZipFile, ValueError, NotImplementedError, OSError, FileUnreadable):
        names = list(SHEET_PARTS)  # the reader of spreadsheets says what is wrong
    if "mimetype" in names:
        return _named(FileFormat.BINARY, ".ods", is_sheet=is_sheet)
    if any(name.endswith("workbook.bin") for name in names):
        return _named(FileFormat.BINARY, ".xlsb", is_sheet=is_sheet)
    if not any(name.startswith(SHEET_PARTS) for name in names):
        inside = ", ".join(map(shown, names[:MOST_PARTS])) or "nothing"
        raise FileUnreadable(
            f"the file is a ZIP archive that contains {inside}; unpack the archive,"
            " and put its files into the folder"
        )
    return _named(FileFormat.XLSX, ".xlsx", is_sheet=is_sheet)
