"""Scan & Pay codes: a QR code as an image that needs no further request."""

from functools import lru_cache

import segno

PIXELS_PER_MODULE = 4


@lru_cache(maxsize=256)
def data_url(text: str) -> str:
    """An SVG of the text's QR code, as a `data:` URL."""
    code = segno.make_qr(text, error="m", encoding="utf-8")
    return str(code.svg_data_uri(scale=PIXELS_PER_MODULE))
