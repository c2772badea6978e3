"""Checks the OTLP collector that traces and metrics are exported to."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import httpx

from backhaul.doctor import Result, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.settings.telemetry import Telemetry

CHECK = "telemetry"
CHECK_SECONDS = 10.0
PROTOBUF = {"Content-Type": "application/x-protobuf"}
PREFIX = "OTEL_EXPORTER_OTLP_"
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
        context = _tls(signal)
    except OSError as error:  # an ssl.SSLError is one
        said = f"the certificates for {url} cannot be read: {error}"
        return warn(CHECK, said, f"correct {PREFIX}CERTIFICATE or {PREFIX}CLIENT_…")
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


def _tls(signal: str) -> ssl.SSLContext:
    """Return the TLS context of a signal's exporter, which reads the same variables.

    Raises OSError if a certificate or key cannot be read.
    """
    if authorities := _variable(signal, "CERTIFICATE"):
        context = ssl.create_default_context(cafile=authorities)
    else:
        context = httpx.create_ssl_context()
    if certificate := _variable(signal, "CLIENT_CERTIFICATE"):
        context.load_cert_chain(certificate, _variable(signal, "CLIENT_KEY"))
    return context


def _variable(signal: str, name: str) -> str | None:
    """Return a standard variable of OpenTelemetry: that of the signal comes first."""
    own = os.environ.get(f"{PREFIX}{signal.upper()}_{name}")
    return own or os.environ.get(f"{PREFIX}{name}") or None
