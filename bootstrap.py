"""Fetch the pip wheel that the lock pins, with the standard library alone.

`make venv` runs this because a system's python3 may have neither pip nor ensurepip.
The index, the certificates and the credentials are those that pip itself would use.
"""

import hashlib
import os
import re
import ssl
import sys
import time
import urllib.request
from configparser import ConfigParser
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

PIN = re.compile(
    r"^pip==(?P<version>[\w.]+)(?P<hashes>(?:\s*\\\s*--hash=sha256:[0-9a-f]{64})+)",
    re.MULTILINE,
)
CONFIG_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
PAUSES_SECONDS = (1, 2, 4)
TIMEOUT_SECONDS = 60
WORTH_RETRYING = {408, 429, 500, 502, 503, 504}


class Links(HTMLParser):
    """Collects the link targets of an index page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if name == "href" and value]


def pinned(lock: str) -> tuple[str, set[str]]:
    """Return the wheel's file name and the sha256 digests that the lock allows."""
    pin = PIN.search(lock)
    if pin is None:
        sys.exit("bootstrap: the lock pins no pip; run `make lock`")
    hashes = set(re.findall(r"sha256:([0-9a-f]{64})", pin["hashes"]))
    return f"pip-{pin['version']}-py3-none-any.whl", hashes


def setting(name: str) -> str | None:
    """Return a setting of pip, from the environment or else from its files."""
    files = [Path(file).expanduser() for file in CONFIG_FILES]
    config = ConfigParser(interpolation=None, strict=False)
    config.read([*files, os.environ.get("PIP_CONFIG_FILE", os.devnull)])
    variable = "PIP_" + name.upper().replace("-", "_")
    return os.environ.get(variable) or config.get("global", name, fallback=None)


def opener(index: str) -> urllib.request.OpenerDirector:
    """Return a URL opener with the environment's proxies and pip's certificates."""
    certificates = setting("cert")
    if certificates and not Path(certificates).is_file():
        sys.exit(f"bootstrap: no certificates at {certificates} (PIP_CERT)")
    context = ssl.create_default_context(cafile=certificates)
    passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
    parts = urlsplit(index)
    if parts.username:
        user, password = unquote(parts.username), unquote(parts.password or "")
        passwords.add_password(
            None, without_credentials(index), user, password, is_authenticated=True
        )
    return urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPBasicAuthHandler(passwords),
    )


def without_credentials(url: str) -> str:
    """Return the address without a user and password in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def fetch(
    url: str,
    client: urllib.request.OpenerDirector,
    pauses: tuple[int, ...] = PAUSES_SECONDS,
) -> bytes:
    """Return the content at the address; retry temporary failures."""
    try:
        with client.open(url, timeout=TIMEOUT_SECONDS) as response:
            return bytes(response.read())
    except (OSError, HTTPException) as error:
        status = getattr(error, "code", None)
        if not pauses or (status and status not in WORTH_RETRYING):
            sys.exit(f"bootstrap: {url}: {error}")
        time.sleep(pauses[0])
    return fetch(url, client, pauses[1:])


def find(name: str, page: bytes, page_url: str) -> str:
    """Return the address of the named file that the index page links to."""
    links = Links()
    links.feed(page.decode())
    for target in links.targets:
        url = urldefrag(urljoin(page_url, target)).url
        if urlsplit(url).path.rpartition("/")[2] == name:
            return url
    sys.exit(f"bootstrap: {page_url} does not list {name}")


def main(lock: Path, wheel: Path) -> None:
    """Put the pinned wheel at the given path, unless it is there already."""
    name, hashes = pinned(lock.read_text())
    if wheel.exists() and hashlib.sha256(wheel.read_bytes()).hexdigest() in hashes:
        return
    index = setting("index-url") or "https://pypi.org/simple"
    client = opener(index)
    page_url = without_credentials(index).rstrip("/") + "/pip/"
    content = fetch(find(name, fetch(page_url, client), page_url), client)
    if hashlib.sha256(content).hexdigest() not in hashes:
        sys.exit(f"bootstrap: {name} is not the file that the lock pins")
    wheel.write_bytes(content)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
