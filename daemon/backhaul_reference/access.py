"""The data folder: secrets of its own, and access.json for scripts and tests."""

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SECRET_MODE = 0o600
ACCESS_FILE = "access.json"


class FolderInUseError(Exception):
    """Another server works in the folder."""


@dataclass(frozen=True, slots=True)
class StoreKey:
    """A store and a key to it that may do everything."""

    subdomain: str
    id: str
    api_key: str


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a running server; the fixture's store comes first."""

    public_url: str
    control_url: str
    control_token: str
    stores: tuple[StoreKey, ...]

    @property
    def store_id(self) -> str:
        return self.stores[0].id

    @property
    def api_key(self) -> str:
        return self.stores[0].api_key


@dataclass(frozen=True, slots=True)
class Folder:
    """One data folder, held by one server at a time."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "reference.db"

    def lock(self) -> int:
        """Hold the folder; the descriptor is closed to let it go."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, SECRET_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise FolderInUseError(str(self.path)) from error
        return descriptor

    def token_key(self) -> bytes:
        """The key of all tracking tokens, made at the first start."""
        path = self.path / "token.key"
        if not path.exists():
            write_private(path, secrets.token_bytes(32))
        return path.read_bytes()

    def read_access(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / ACCESS_FILE).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_access(self, access: Access) -> None:
        text = json.dumps(asdict(access), indent=1) + "\n"
        write_private(self.path / ACCESS_FILE, text.encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
