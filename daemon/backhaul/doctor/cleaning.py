"""Takes out of texts and settings what is nobody else's business."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from backhaul.observe.redaction import REDACTED, Redactor
from backhaul.settings import secret_values

if TYPE_CHECKING:
    from backhaul.settings import Settings

_MAIL = re.compile(r"[^\s@<>\"',;]+@[^\s@<>\"',;]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
"""What is quoted is somebody's data: the words around it are ours."""
_PHONE = re.compile(r"\+\d[\d ()/-]{6,}\d")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"')]+")
_LOGIN = re.compile(r"user|login|mail", re.IGNORECASE)


class Cleaner:
    """Cleans what is handed to somebody else; it knows the secrets of the settings."""

    def __init__(self, settings: Settings | None) -> None:
        self._redact = Redactor(secret_values(settings) if settings else ())

    def secrets(self, text: str) -> str:
        """Take out secrets alone: for what cannot hold anything else."""
        return self._redact(text)

    def text(self, text: str) -> str:
        """Take out secrets, mail addresses, telephone numbers and what is quoted."""
        told = _ADDRESS.sub(lambda each: _origin(each[0]), self._redact(text))
        for personal in (_MAIL, _QUOTED, _PHONE):
            told = personal.sub(REDACTED, told)
        return told

    def value(self, value: object) -> Any:
        """Clean all texts of a JSON document."""
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(each) for k, each in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))

    def settings(self, value: object, key: str = "") -> Any:
        """Return settings as JSON; secrets, logins and mail addresses are not in it."""
        if isinstance(value, BaseModel):
            value = dict(value) | dict(value.model_extra or {})
        if isinstance(value, dict):
            return {str(k): self.settings(each, str(k)) for k, each in value.items()}
        if isinstance(value, SecretStr) or (value and _LOGIN.search(key)):
            return REDACTED
        if isinstance(value, list | tuple | set | frozenset):
            return [self.settings(each, key) for each in value]
        return self.value(value.value if isinstance(value, Enum) else _plain(value))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _origin(address: str) -> str:
    """Leave of an address what names the server: a path or login may be a secret."""
    known = urlsplit(address)
    place = (known.netloc or known.path).rpartition("@")[2]
    return f"{known.scheme}://{place}"
