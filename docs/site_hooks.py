"""Makes the pages of the repository fit for a site: what mkdocs calls for each page.

Links to files outside of this folder, such as tests, have no page on the site. There
the path stands as text, so that a reader finds the file in the repository.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\.?/)[^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def shown(link: re.Match[str]) -> str:
        label, target = link[1], posixpath.normpath(posixpath.join(folder, link[2]))
        if not target.startswith("../") and posixpath.splitext(target)[1]:
            return link[0]
        path = posixpath.normpath(posixpath.join("docs", target))
        return label if path in label else f"{label} (`{path}`)"

    return _LINK.sub(shown, markdown)
