"""Certificates for 127.0.0.1: a self-signed one, and one of an authority."""

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


def of_an_authority(
    folder: Path, name: str = "IP:127.0.0.1"
) -> tuple[Path, Path, Path]:
    """Return an authority's certificate, and the certificate and key of 127.0.0.1.

    `name` is another subject alternative name, such as `DNS:scans.example`.
    """
    openssl, new = require("openssl"), ["-newkey", "ec", "-nodes"]
    new += ["-pkeyopt", "ec_paramgen_curve:prime256v1"]
    authority, authority_key = folder / "authority.pem", folder / "authority.key"
    certificate, key = folder / "server.pem", folder / "server.key"
    wanted = folder / "server.csr"
    signing = ["-CA", str(authority), "-CAkey", str(authority_key), "-CAcreateserial"]
    subject = ["-subj", f"/CN={name.partition(':')[2]}"]
    subject += ["-addext", f"subjectAltName={name}"]
    commands: list[list[str]] = [
        ["req", "-x509", *new, "-days", "1", "-subj", "/CN=authority", "-out"],
        ["req", *new, *subject, "-out", str(wanted), "-keyout", str(key)],
        ["x509", "-req", "-days", "1", "-copy_extensions", "copy", *signing, "-out"],
    ]
    commands[0] += [str(authority), "-keyout", str(authority_key)]
    commands[2] += [str(certificate), "-in", str(wanted)]
    with on_purpose():
        for command in commands:
            subprocess.run([openssl, *command], check=True, capture_output=True)
    return authority, certificate, key


def hash_of(certificate: Path) -> str:
    """Return the name by which OpenSSL finds a certificate in a folder."""
    command = [require("openssl"), "x509", "-hash", "-noout", "-in", str(certificate)]
    with on_purpose():
        found = subprocess.run(command, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def locked_key(key: Path) -> Path:
    """Return a copy of a key that has a passphrase."""
    locked = key.with_suffix(".locked")
    command = [require("openssl"), "pkey", "-aes256", "-passout", "pass:x1y2z3"]
    command += ["-in", str(key), "-out", str(locked)]
    with on_purpose():
        subprocess.run(command, check=True, capture_output=True)
    return locked
