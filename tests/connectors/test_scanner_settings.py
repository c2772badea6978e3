"""Settings of devices and tokens: which are refused, and that no token is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr, ValidationError

from backhaul_connectors.scanner import Scanner
from backhaul_connectors.scanner.settings import Settings
from backhaul_sdk import CheckFailed, HttpRequest
from backhaul_sdk.testing import MemoryDocuments, MemoryHost
from connectors.scanning import OTHER_TOKEN, TOKEN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ({}, "no device is allowed"),
        ({"dock": "short-token"}, "16 or more"),
        ({"dock": TOKEN + "\n" + TOKEN}, "printable"),
        ({"dock": TOKEN, "belt": TOKEN}, "dock and belt have the same token"),
        ({"my dock": TOKEN}, "device name"),
        ({"": TOKEN}, "device name"),
        (f"dock={TOKEN}\nbelt", "line 2 must be name=token"),
        ({"dock": 1234567890123456789}, "string"),
    ],
)
def test_a_mistake_is_named_and_no_token_shows(devices: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"devices": devices})
    assert said in str(caught.value)
    for secret in (TOKEN, "short-token", "1234567890123456789"):
        assert secret not in f"{caught.value} {caught.value!r}"


def test_devices_may_come_as_lines() -> None:
    lines = SecretStr(f"# the dock\ndock={TOKEN}\n\nbelt = {OTHER_TOKEN}\n")
    settings = Settings.model_validate({"devices": lines})
    tokens = {name: s.get_secret_value() for name, s in settings.devices.items()}
    assert tokens == {"dock": TOKEN, "belt": OTHER_TOKEN}
    assert TOKEN not in repr(settings)


def with_file(file: Path, content: bytes, mode: int = 0o600) -> Scanner:
    file.write_bytes(content)
    file.chmod(mode)
    settings = Settings.model_validate({"tokens_file": file})
    scanner = Scanner("dock", settings)
    scanner.documents = MemoryDocuments()
    return scanner


async def test_devices_are_read_from_the_file_at_start(tmp_path: Path) -> None:
    scanner = with_file(tmp_path / "tokens", f"dock={TOKEN}\n".encode())
    await scanner.open()
    route, *_ = await scanner.listen(MemoryHost().emit)
    headers = {"authorization": f"bearer {TOKEN}"}
    body = b'{"mode": "pack", "code": "1001"}'
    answer = await route.handler(HttpRequest("POST", "/scan", headers, body))
    assert answer.status == 200
    assert "dock" in repr(vars(scanner))
    assert TOKEN not in repr(vars(scanner))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "contains no device"),
        (b"dock\n", "line 1 must be name=token"),
        (f"dock={TOKEN}\nbelt={TOKEN}".encode(), "the same token"),
        (f"dock={TOKEN}\ndock={OTHER_TOKEN}".encode(), "line 2"),
        (b"dock=" + TOKEN.encode() + b"\xff", "not UTF-8"),
        (b"dock=abc", "16 or more"),
    ],
)
async def test_a_broken_file_is_explained_without_its_content(
    tmp_path: Path, content: bytes, said: str
) -> None:
    scanner = with_file(tmp_path / "tokens", content)
    for step in (scanner.check, scanner.open):
        with pytest.raises(CheckFailed, match=said) as caught:
            await step()
        assert TOKEN not in f"{caught.value!r} {caught.getrepr(showlocals=False)}"


async def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    scanner = with_file(tmp_path / "tokens", f"dock={TOKEN}".encode(), mode=0o644)
    with pytest.raises(CheckFailed, match="chmod 600"):
        await scanner.check()


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    settings = Settings.model_validate({"tokens_file": tmp_path / "tokens"})
    with pytest.raises(CheckFailed, match=r"tokens cannot be read: no such file"):
        await Scanner("dock", settings).check()
