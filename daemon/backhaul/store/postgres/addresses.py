"""The URL of a PostgreSQL database: what may be shown of it, and what is wrong with it.

An error of libpq may quote a part of a password that it took for something else. So a
URL is checked here first, and nothing of it is quoted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

SCHEMES = ("postgresql", "postgres")
_HOST = r"(\[[0-9a-fA-F:.]*\]|[^:@,\[\]]*)(:\d*)?"
_NETLOC = re.compile(rf"([^@:]*(:[^@:]*)?@)?{_HOST}(,{_HOST})*")
_PLACE = frozenset({"host", "port", "dbname", "options"})
"""The parameters that say where the database is."""
_SECRET = frozenset({"password", "sslpassword"})


def require_valid(url: str) -> None:
    """Refuse a URL that libpq would understand differently. Raises BackhaulError."""
    try:
        parts = urlsplit(url)
        # A password with one of / ? # ends where the path, query or fragment begins.
        is_valid = "@" not in f"{parts.path}{parts.query}{parts.fragment}"
    except ValueError:
        is_valid = False
    if not (is_valid and parts.scheme in SCHEMES and _NETLOC.fullmatch(parts.netloc)):
        raise BackhaulError(
            "the URL of the database cannot be understood; it is such as"
            " postgresql://user@db.example.com:5432/backhaul, where special characters"
            " of a name or password are percent-encoded: @ is %40, / is %2F"
        )


def place_of(url: str) -> str:
    """Return where a database is, without any credentials, to be shown and stored."""
    parts = urlsplit(url)
    query = [each for each in _parameters(parts) if _name(each) in _PLACE]
    return _joined(parts.netloc.rpartition("@")[2], parts.path, query)


def without_password(url: str) -> str:
    """Return a URL for a configuration that has the password elsewhere."""
    parts = urlsplit(url)
    account, at, hosts = parts.netloc.rpartition("@")
    query = [each for each in _parameters(parts) if _name(each) not in _SECRET]
    return _joined(f"{account.partition(':')[0]}{at}{hosts}", parts.path, query)


def _parameters(parts: SplitResult) -> list[str]:
    """Return the parameters as they are: libpq does not read `+` as a space."""
    return [each for each in parts.query.split("&") if each]


def _name(parameter: str) -> str:
    return unquote(parameter.partition("=")[0])


def _joined(netloc: str, path: str, query: list[str]) -> str:
    return f"postgresql://{netloc}{path}{'?' if query else ''}{'&'.join(query)}"
