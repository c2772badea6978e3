"""A certificate that vouches for itself, as whoever trusts its file sees it."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING

from scenes.loop_guard import on_purpose
from scenes.requirements import require

if TYPE_CHECKING:
    from pathlib import Path


def of_this_machine(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a certificate of 127.0.0.1, for SSL_CERT_FILE, and a server's context."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [require("openssl"), "req", "-x509", "-newkey", "ec", "-nodes"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-days", "1", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-out", str(certificate), "-keyout", str(key)]
    with on_purpose():
        subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
