"""The examples of docs/api.md work as written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backhaul.store.testing.mirror_scenes import show_order
from scenes.api import API, issue

if TYPE_CHECKING:
    from scenes.dashboard import Office

PAGE = (Path(__file__).resolve().parents[2] / "docs/api.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class Example(msgspec.Struct, frozen=True):
    """One command line of the page, as the request that curl makes of it."""

    url: str
    headers: dict[str, str]
    body: str | None


def examples() -> list[Example]:
    """Return each curl command of the page."""
    lines = "\n".join(BLOCKS).replace("\\\n", " ").splitlines()
    return [_parsed(line) for line in lines if line.startswith("curl ")]


def _parsed(line: str) -> Example:
    words = iter(shlex.split(line)[1:])
    headers, body, url = {}, None, ""
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(words)
        else:
            assert not word.startswith("-"), f"this test does not know {word}"
            url = word
    return Example(url, headers, body)


async def send(office: Office, example: Example, token: str) -> tuple[int, Any]:
    client = (await office.browser()).client
    path = example.url.replace("$BACKHAUL", API)
    headers = {k: v.replace("$TOKEN", token) for k, v in example.headers.items()}
    method = "GET" if example.body is None else "POST"
    answer = await client.request(method, path, headers=headers, data=example.body)
    return answer.status, await answer.json()


async def test_the_examples_work_in_their_order(office: Office) -> None:
    await show_order(office.store, "ord_1")
    token = await issue(office.store)
    found = [await send(office, each, token) for each in examples()]
    assert [status for status, _ in found] == [201, 200, 200, 202, 200]
    (_, parcel), (_, record), (_, order), (_, count), _ = found
    assert record == parcel
    assert order["name"] == "#1001"
    assert {"record", "fulfill"} <= {entry["what"] for entry in order["timeline"]}
    assert "LAMP-1" in count["reason"]


@pytest.mark.parametrize("text", re.findall(r"^data: (.*)$", PAGE, re.MULTILINE))
def test_the_example_of_the_stream_is_json(text: str) -> None:
    assert set(json.loads(text)) == {"type", "id", "state", "store"}
