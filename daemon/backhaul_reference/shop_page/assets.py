"""The page's files: read once, and addressed by what they hold."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from string import Template

FOLDER = Path(__file__).parent / "static"
TEMPLATE = "page.html"
MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """Every file of the page; `digest` changes when any of them does."""

    files: dict[str, Asset]
    template: Template
    digest: str

    @property
    def root(self) -> str:
        """Where the files are; modules import each other relative to it."""
        return f"/shop-files/{self.digest}"


def load() -> Assets:
    """Read the package's folder; what is not there now is never served."""
    files = {
        path.name: Asset(path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in MEDIA_TYPES
    }
    template = Template((FOLDER / TEMPLATE).read_text(encoding="utf-8"))
    return Assets(files, template, _digest(files))


def _digest(files: dict[str, Asset]) -> str:
    whole = hashlib.sha256()
    for name, asset in files.items():
        whole.update(f"{name} {len(asset.body)}\n".encode() + asset.body)
    return whole.hexdigest()[:DIGEST_CHARACTERS]
