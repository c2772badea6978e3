"""Checks the OTLP collector that traces and metrics are exported to."""

from __future__ import annotations

import os
import ssl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import httpx

from backhaul.doctor import Result, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.settings.telemetry import Telemetry

CHECK = "telemetry"
CHECK_SECONDS = 10.0
PROTOBUF = {"Content-Type": "application/x-protobuf"}
PREFIX = "OTEL_EXPORTER_OTLP_"
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables with which `requests` finds the authorities of all servers."""
NOTHING = b""
"""An export without a span or a metric, as protobuf encodes it."""
_REFUSED = frozenset({401, 403})


async def check(settings: Telemetry) -> list[Result]:
    """Send an empty export to each address in use; return a result for each."""
    headers = PROTOBUF | settings.sent_headers
    return [await _check(settings, signal, headers) for signal in _signals(settings)]


def _signals(settings: Telemetry) -> Iterator[str]:
    if settings.traces:
        yield "traces"
    if settings.metrics:
        yield "metrics"


async def _check(
    settings: Telemetry, signal: str, headers: Mapping[str, str]
) -> Result:
    """Return a warning at most: Backhaul works without a collector."""
    url = f"{settings.endpoint}/v1/{signal}"
    try:
        context = _tls(url, signal)
    except OSError as error:
        said = f"the certificates for {url} cannot be used: {error}"
        return warn(CHECK, said, "correct the variable, or the file that it names")
    try:
        async with httpx.AsyncClient(
            verify=context, timeout=CHECK_SECONDS, headers=headers
        ) as client:
            answer = await client.post(url, content=NOTHING)
    except httpx.HTTPError as error:
        said = f"{url} cannot be reached: {type(error).__name__}: {error}"
        fix = "start the collector, or correct otlp_endpoint in [telemetry]"
        return warn(CHECK, said.rstrip(": "), fix)
    if answer.is_success:
        return ok(CHECK, f"{url} takes exports")
    said = f"{url} answers {answer.status_code} {answer.reason_phrase}".rstrip()
    if answer.status_code in _REFUSED:
        return warn(CHECK, said, "correct headers in [telemetry]")
    fix = "give the collector's address for OTLP over HTTP, usually with port 4318"
    return warn(CHECK, said, f"{fix}, as otlp_endpoint in [telemetry]")


def _tls(url: str, signal: str) -> ssl.SSLContext:
    """Return the TLS context of a signal's exporter, which reads the same variables.

    The exporter sends by `requests`: this lets its own variables outweigh those of
    OpenTelemetry. Raises OSError if a certificate or key cannot be read.
    """
    if not url.lower().startswith("https:"):
        return httpx.create_ssl_context(trust_env=False)
    name, place = _given(*BUNDLES, *_variables(signal, "CERTIFICATE"))
    with _named(f"{place} ({name})"):
        if not place:
            context = httpx.create_ssl_context(trust_env=False)
        elif Path(place).is_dir():
            context = ssl.create_default_context(capath=place)
        else:
            context = ssl.create_default_context(cafile=place)
    name, certificate = _given(*_variables(signal, "CLIENT_CERTIFICATE"))
    if certificate:
        its, key = _given(*_variables(signal, "CLIENT_KEY"))
        both = f" with {key} ({its})" if key else ""
        with _named(f"{certificate} ({name}){both}"):
            context.load_cert_chain(certificate, key or None, _refuse_passphrase)
    return context


def _refuse_passphrase() -> NoReturn:
    """Raise OSError; without this function, OpenSSL asks on the terminal."""
    raise OSError("the key has a passphrase, which the exporter does not know")


@contextmanager
def _named(files: str) -> Iterator[None]:
    """Add the files and their variables to an OSError; that of `ssl` names neither."""
    try:
        yield
    except OSError as error:  # an ssl.SSLError is one
        raise OSError(f"{files}: {error}") from None


def _variables(signal: str, name: str) -> tuple[str, str]:
    """Return a variable of OpenTelemetry for a signal, and that for all signals."""
    return f"{PREFIX}{signal.upper()}_{name}", f"{PREFIX}{name}"


def _given(*names: str) -> tuple[str, str]:
    """Return the first variable that has a value, and the value; empty if none has."""
    found = ((name, os.environ.get(name, "")) for name in names)
    return next((each for each in found if each[1]), ("", ""))
