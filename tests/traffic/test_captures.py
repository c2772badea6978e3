"""A capture has every byte, and an incomplete capture is reported."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.errors import Unusable
from backhaul.platform.client import StoreFacts
from backhaul.store.inbox import Arrival
from backhaul.traffic import capture_files
from backhaul.traffic.capture_files import NetworkFaults

HEAD = capture_files.CaptureHeader(
    capture_files.FORMAT, "t", {"main": StoreFacts("sto_1", "EUR")}
)
BODIES = [
    b"{}",
    b"",
    b"\x00\xff",
    b'{"a": "\xc3\xa9"}\r\n',
    "\u2028".encode(),
    b"\xef\xbb\xbf{}",
]


def written(arrivals: list[Arrival]) -> str:
    stream = io.StringIO(newline="")
    assert capture_files.write(HEAD, arrivals, stream) == len(arrivals)
    return stream.getvalue()


def arrival(body: bytes, at: str = "2026-03-01T12:00:00.000Z") -> Arrival:
    return Arrival("main", "delivery", "orders/create", at, b'{"X-A":"\xc3\xa9"}', body)


def test_written_events_are_read_byte_for_byte(tmp_path: Path) -> None:
    arrivals = [arrival(body) for body in BODIES]
    path = tmp_path / "capture.jsonl"
    path.write_text(written(arrivals), newline="")
    assert list(capture_files.read(path)) == arrivals
    assert capture_files.read_head(path) == HEAD


@given(st.binary(max_size=200))
def test_any_body_survives(body: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "capture.jsonl")
        path.write_text(written([arrival(body)]), newline="")
        assert [read.body for read in capture_files.read(path)] == [body]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a capture"),
        ("{}", "is not a capture"),
        ("\x00", "is not a capture"),
        ('{"backhaul_capture":9,"captured_at":"","stores":{}}\n', "format 9"),
        (written([]) + "{}\n", "line 2: Object missing required field `store`"),
        (written([arrival(b"")]) + '{"store"\n', "line 3: "),
        (written([arrival(b"\xff")]).replace('"/w=="', '"!"'), "line 2: "),
    ],
    ids=["empty", "no head", "binary", "newer", "no event", "cut", "bad base64"],
)
def test_invalid_lines_are_reported(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    path.write_text(text)
    with pytest.raises(Unusable, match=f"capture.jsonl.*{told}"):
        list(capture_files.read(path))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="No such file"):
        capture_files.read_head(tmp_path / "none.jsonl")


RUN = [
    arrival(b"%d" % number, f"2026-03-01T12:00:{number % 60:02}.000Z")
    for number in range(400)
]


def test_without_disorder_the_run_is_as_it_was() -> None:
    assert NetworkFaults().apply(RUN) == RUN


def test_a_seed_gives_the_same_run_each_time() -> None:
    disorder = NetworkFaults(shuffle=7, duplicate=0.2, drop=0.1)
    assert disorder.apply(RUN) == disorder.apply(RUN)
    assert disorder.apply(RUN) != NetworkFaults(8, 0.2, 0.1).apply(RUN)


def test_shuffling_and_repeating_loses_no_event() -> None:
    run = NetworkFaults(shuffle=1, duplicate=0.5).apply(RUN)
    assert {each.body for each in run} == {each.body for each in RUN}
    assert 500 < len(run) < 700
    assert run != sorted(run, key=lambda each: each.body)


def test_the_probabilities_hold() -> None:
    assert NetworkFaults(drop=1.0).apply(RUN) == []
    assert len(NetworkFaults(duplicate=1.0).apply(RUN)) == 800
    assert 300 < len(NetworkFaults(drop=0.1).apply(RUN)) < 390


def test_until_excludes_events_at_or_after_its_time() -> None:
    run = NetworkFaults(until="2026-03-01T12:00:10.000Z").apply(RUN)
    assert {each.received_at for each in run} == {
        f"2026-03-01T12:00:0{second}.000Z" for second in range(10)
    }
