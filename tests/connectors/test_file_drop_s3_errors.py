"""The errors that file_drop reports for an unusable bucket, and bucket settings."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.setting_meanings import meanings
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import CheckFailed
from scenes.certificates import of_an_authority
from scenes.object_store import SECRET_KEY, ObjectStore
from scenes.rclone import Rclone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

BUCKET = {"folder": "s3://drop/in", "access_key": "A", "secret_key": SECRET_KEY}
ANSWER = "HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}"
ERROR = "<Error><Code>{}</Code><Message>words of the store</Message></Error>"


async def problem(options: dict[str, object]) -> str:
    """Return what the check says; it never says the secret."""
    connector = FileDrop("drop", Settings.model_validate(options))
    with pytest.raises(CheckFailed) as found:
        await connector.check()
    await connector.close()
    assert SECRET_KEY not in str(found.value)
    return str(found.value)


@pytest.fixture
async def refusing() -> AsyncIterator[tuple[dict[str, object], list[str]]]:
    """A server that refuses every request with the code in the list."""
    codes: list[str] = []

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = ERROR.format(codes[0])
        writer.write(ANSWER.format(len(body), body).encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield {**BUCKET, "endpoint": f"http://127.0.0.1:{port}"}, codes


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AccessDenied", "allow the access key to list, read, write and delete"),
        ("RequestTimeTooSkewed", "the clock of this machine"),
        ("ExpiredToken", "session_token has expired"),
        ("PermanentRedirect", "correct region or endpoint"),
        ("SomethingNew", "the store refused the request"),
    ],
)
async def test_a_refusal_is_explained(
    refusing: tuple[dict[str, object], list[str]], code: str, advice: str
) -> None:
    options, codes = refusing
    codes.append(code)
    said = await problem(options)
    assert said.startswith(f"the folder in s3://drop cannot be listed: {code}: ")
    assert advice in said
    assert "\n" not in said


async def test_a_missing_server_is_explained() -> None:
    said = await problem({**BUCKET, "endpoint": "http://127.0.0.1:1"})
    assert "http://127.0.0.1:1 cannot be reached: nothing accepts connections" in said


async def test_an_unknown_name_is_explained() -> None:
    said = await problem({**BUCKET, "endpoint": "https://s3.nowhere.invalid"})
    assert "cannot be reached: its name cannot be resolved; correct endpoint" in said


async def test_a_missing_file_of_certificates_is_explained(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    said = await problem({**BUCKET, "ca_file": missing})
    assert said == f"ca_file {missing} cannot be read: No such file or directory"


@pytest.mark.programs
async def test_a_wrong_bucket_is_explained(object_store: ObjectStore) -> None:
    said = await problem({**object_store.settings(), "folder": "s3://other/in"})
    assert "NoSuchBucket: there is no such bucket; correct folder" in said


@pytest.fixture
def rclone(tmp_path: Path) -> Iterator[Rclone]:
    _, certificate, key = of_an_authority(tmp_path)
    options = ["--cert", str(certificate), "--key", str(key)]
    server = Rclone(tmp_path, options=options)
    (server.root / "drop/in").mkdir(parents=True)
    server.start()
    yield server
    server.kill()


@pytest.mark.programs
async def test_a_certificate_is_trusted_only_by_setting(
    rclone: Rclone, tmp_path: Path
) -> None:
    options = rclone.settings() | {"endpoint": f"https://127.0.0.1:{rclone.port}"}
    said = await problem(options)
    assert "its TLS certificate is not trusted" in said
    assert "set ca_file" in said
    trusting = options | {"ca_file": tmp_path / "authority.pem"}
    await FileDrop("drop", Settings.model_validate(trusting)).check()
    wrong = trusting | {"secret_key": "wrong"}
    assert "SignatureDoesNotMatch: secret_key does not fit" in await problem(wrong)
    wrong = trusting | {"access_key": "nobody"}
    assert "InvalidAccessKeyId: the store does not know" in await problem(wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "path is missing; set path, folder, or imap for a mailbox"),
        ({"folder": "s3://b", "path": "/srv"}, "folder excludes path"),
        ({"folder": "/srv"}, "begin it with one of s3://"),
        ({"folder": "s3://a:b@c/d"}, "contains a user name or password"),
        ({"folder": "s3:///d"}, "has no name after ://"),
        ({"folder": "s3://b/c?d=e"}, "write them as %3F and %23"),
        ({"folder": "s3://b/../c"}, "an empty part, . or .."),
        ({"folder": "s3://b", "access_key": "A"}, "secret_key is missing"),
        ({"folder": "s3://b", "secret_key": "x"}, "access_key is missing"),
        ({"folder": "s3://b", "endpoint": "http://c"}, "must begin with https://"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    options: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Settings.model_validate(options)


def test_an_untested_store_is_called_experimental() -> None:
    said = meanings(Settings.model_validate({"folder": "gs://bucket"}))
    assert "Google Cloud Storage is experimental: this project's tests" in said[0]


EXTRAS = ("obstore", "aioftp", "asyncssh", "imapclient", "openpyxl", "defusedxml")
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS})); "
MAKES = "from backhaul_connectors.file_drop.settings import Settings; "


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return done.stderr


def test_a_folder_here_needs_none_of_the_extras() -> None:
    uses = "from backhaul_connectors.file_drop import FileDrop; "
    assert run(f"{BLOCKED}{uses}{MAKES}FileDrop('d', Settings(path='/srv'))") == ""
