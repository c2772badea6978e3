"""Text in any encoding is read correctly, or the file is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_connectors.file_drop.format_detection import (
    EncodingUndecided,
    guessed,
    reads_well,
)
from backhaul_sdk import Fulfillment
from connectors.dropping import FULFILLMENTS, Drop

if TYPE_CHECKING:
    from pathlib import Path

SHIFT_JIS = (
    b"order,tracking_company,tracking_number\n1001,\x83\x84\x83}\x83g\x89^\x97A,X3\n"
)


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def carriers(drop: Drop) -> list[str | None]:
    records = [r for r in drop.records() if isinstance(r, Fulfillment)]
    return [r.tracking_company for r in records]


async def test_shift_jis_is_found_out(drop: Drop) -> None:
    drop.options["fulfillments"] = "13-*.csv"
    drop.put("13-shift-jis.csv", SHIFT_JIS)
    await drop.pull()
    assert carriers(drop) == ["ヤマト運輸"]


STORED = [
    ("cp932", "ヤマト運輸"),
    ("euc_jp", "佐川急便"),
    ("iso2022_jp", "日本郵便"),
    ("gbk", "顺丰速运"),
    ("gb18030", "中国邮政"),
    ("big5", "黑貓宅急便"),
    ("cp949", "우체국택배"),
    ("cp437", "Österreichische Post"),
    ("cp850", "Österreichische Post"),
    ("cp852", "Česká pošta"),
    ("cp1250", "Poczta Polska, Łódź"),
    ("cp1250", "Česká pošta"),
    ("iso8859_2", "Magyar Posta, Győr"),
    ("mac_roman", "Müller Spedition"),
    ("mac_roman", "Österreichische Post"),
    ("cp1251", "Почта России"),
    ("koi8_r", "Почта России"),
    ("cp866", "Почта России"),
    ("cp1253", "Ταχυδρομείο"),
    ("cp1254", "Yurtiçi Kargo, Şişli"),
    ("iso8859_9", "Sürat Kargo, İstanbul"),
    ("cp1254", "Aras Kargo, Bal\u0131kesir"),
    ("cp1255", "דואר ישראל"),
    ("cp1256", "البريد السعودي"),
    ("cp1257", "Lietuvos paštas"),
    ("cp874", "ไปรษณีย์ไทย"),
    ("cp850", "Færge, Malmö, Málaga, voilà, hôtel"),
    ("cp850", "Malmö"),
    ("cp1250", "Kaufland, Žilina"),
    ("utf-32", "Österreichische Post"),
    ("utf-16-le", "Österreichische Post"),
]


@pytest.mark.parametrize(("encoding", "carrier"), STORED)
async def test_any_encoding_is_read_right_or_the_file_is_held(
    drop: Drop, encoding: str, carrier: str
) -> None:
    text = f'{FULFILLMENTS}1001,"{carrier}",X\n'
    drop.put("fulfillments.csv", text.encode(encoding))
    await drop.pull()
    assert carriers(drop) in ([carrier], [])
    if not drop.records():
        assert "set encoding" in drop.reasons()[0]


@pytest.mark.parametrize(("encoding", "carrier"), STORED)
async def test_any_encoding_that_is_set_is_read_right(
    drop: Drop, encoding: str, carrier: str
) -> None:
    drop.options["encoding"] = encoding.replace("_", "-").upper()
    text = f'{FULFILLMENTS}1001,"{carrier}",X\n1002,DHL,Y\n'
    drop.put("fulfillments.csv", text.encode(encoding))
    await drop.pull()
    assert carriers(drop) == [carrier, "DHL"]


@pytest.mark.parametrize(
    "carrier",
    [
        *(
            "Café €",
            "Zoë",
            "L\u2019Oréal",
            "Dépôt \u2013 Évry",
            "„Müller“ & Söhne",
            "São",
        ),
        *("Straße", "ÖSTERREICHISCHE POST", "Ærø Færge", "naïve", "Peñón", "½ Palette"),
        *("GLS®", "5 °C", "Mañana", "Ñandú", "Élan", "coeur", "cœur", "Ÿ", "1º andar"),
    ],
)
async def test_western_files_are_read_as_before(drop: Drop, carrier: str) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,{carrier},X\n".encode("cp1252"))
    await drop.pull()
    assert carriers(drop) == [carrier]


@pytest.mark.parametrize(
    ("carrier", "said"),
    [
        ("Ã\u2013sterreichische Post", "stored as UTF-8 twice"),
        ("CafÃ©", "stored as UTF-8 twice"),
        ("lâ€™Oréal", "stored as UTF-8 twice"),
        ("\u201cCafÃ©", "stored as UTF-8 twice"),
        ("├ûsterreichische Post", "stored as UTF-8 twice"),
        ("Caf├®", "stored as UTF-8 twice"),
        ("√ñsterreichische Post", "stored as UTF-8 twice"),
        ("Caf√©", "stored as UTF-8 twice"),
        *(
            (carrier.encode().decode(encoding), "stored as UTF-8 twice")
            for carrier, encoding in (("Почта России", "cp1251"), ("Łódź", "cp437"))
        ),
        ("Caf\ufffd", "unreadable letters"),
        ("Caf\x85", "control characters"),
    ],
)
async def test_letters_that_are_wrong_in_the_file_are_not_shown_to_a_buyer(
    drop: Drop, carrier: str, said: str
) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,{carrier},X\n1002,Ö,Y\n")
    await drop.pull()
    assert carriers(drop) == ["Ö"]
    assert said in drop.reasons()[0]


@pytest.mark.parametrize(
    "word",
    [
        "Ãngela",
        "SÃO",
        "Â",
        "château",
        "Ünal",
        "Đà Nẵng",
        "Сё",
        "№ 5",
        "Víðáttan",
        "ΕΛΤΑ",
        "ヤマト運輸",
    ],
)
async def test_valid_letters_are_not_mistaken_for_wrong_ones(
    drop: Drop, word: str
) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,{word},X\n")
    await drop.pull()
    assert carriers(drop) == [word]


async def test_an_encoding_that_is_set_wrong_shows_nothing_to_a_buyer(
    drop: Drop,
) -> None:
    drop.options["encoding"] = "latin-1"
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,Caf\u20ac,X\n".encode("cp1252"))
    await drop.pull()
    assert (carriers(drop), len(drop.reasons())) == ([], 1)


@settings(deadline=None, max_examples=30)
@given(
    st.text(st.sampled_from("aeiouAEIOU äöüÄÖÜßéèàç"), min_size=1, max_size=12),
    st.sampled_from(["cp437", "cp850", "mac_roman", "cp932", "cp1251", "gb18030"]),
)
def test_a_guess_never_has_controls_or_lost_letters(word: str, encoding: str) -> None:
    data = f"1001,{word},X\n".encode(encoding, "ignore")
    try:
        text = data.decode(guessed(data))
    except EncodingUndecided:
        return
    assert reads_well(text, "utf-8")
    assert not any("\x7f" <= letter <= "\x9f" or letter == "\ufffd" for letter in text)


async def test_the_mark_that_dos_writes_at_the_end_is_no_row(drop: Drop) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,DHL,X\n\x1a")
    await drop.pull()
    assert (carriers(drop), drop.reasons()) == (["DHL"], [])


async def test_where_letters_leave_a_choice_the_rows_without_any_are_read(
    drop: Drop,
) -> None:
    drop.options["max_bad_share"] = 0.5
    header = "order,tracking_company,tracking_number,title"
    rows = "1,DHL,A,Österreich\n2,Österreichische Post,B,x\n3,UPS,C,x\n"
    drop.put("fulfillments.csv", f"{header}\n{rows}".encode("cp850"))
    await drop.pull()
    assert carriers(drop) == ["DHL", "UPS"]
    (reason,) = drop.reasons()
    assert "it could be Österreich in" in reason
    assert "set encoding" in reason


WORDS = {
    "cp850": "Österreichische Post|Dépêche Évry|Ødegård|Malmö|Peñón|São João|Città",
    "cp437": "Dépêche Évry|Gebrüder Weiß|Señor Envíos|Ångström|Noël",
    "mac_roman": "Peñón|Ångström|Müller|Köln Kurier|Ødegård|Göteborg|Crème",
    "cp1250": "Żółw|Čačak|Przesyłka|Česká pošta",
    "iso8859_2": "Żółw|Čačak|Przesyłka|Česká pošta",
    "cp737": "ΕΛΤΑ Courier",
}
CHOICES = [(name, word) for name in WORDS for word in WORDS[name].split("|")]


@pytest.mark.parametrize(("encoding", "word"), CHOICES)
def test_short_words_are_read_right_or_not_at_all(encoding: str, word: str) -> None:
    data = f"1001,{word},X\n".encode(encoding)
    try:
        read = data.decode(guessed(data))
    except EncodingUndecided:
        return
    assert word in read
