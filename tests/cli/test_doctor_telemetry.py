"""What `backhaul doctor` reports about the collector of traces and metrics."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from backhaul.doctor import State, collector
from backhaul.settings.telemetry import Telemetry
from scenes.certificates import of_an_authority
from scenes.otlp_collector import Collector, collecting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.doctor import Result


OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES"


@pytest.fixture
async def running() -> AsyncIterator[Collector]:
    async with collecting() as opened:
        yield opened


async def examined(url: str, **settings: object) -> list[Result]:
    return await collector.check(
        Telemetry.model_validate({"otlp_endpoint": url, **settings})
    )


async def test_a_collector_that_accepts_exports_is_ok(running: Collector) -> None:
    found = await examined(running.url, headers="api-key=k123")
    assert [result.state for result in found] == [State.OK, State.OK]
    assert [headers["api-key"] for headers in running.headers] == ["k123", "k123"]
    assert (running.spans, running.resources) == ([], [])


async def test_only_configured_exports_are_checked(running: Collector) -> None:
    (found,) = await examined(running.url, traces=False)
    assert found.said == f"{running.url}/v1/metrics takes exports"


async def test_a_refusal_names_the_headers(running: Collector) -> None:
    running.refuses = True
    (found,) = await examined(running.url, metrics=False, headers="api-key=canary")
    assert found.state is State.WARN
    assert found.said == f"{running.url}/v1/traces answers 401 Unauthorized"
    assert found.fix == "correct headers in [telemetry]"


async def test_another_address_names_the_setting(running: Collector) -> None:
    (found,) = await examined(f"{running.url}/other", metrics=False)
    assert found.said == f"{running.url}/other/v1/traces answers 404 Not Found"
    assert "otlp_endpoint in [telemetry]" in found.fix


async def test_a_collector_that_is_away_is_no_failure() -> None:
    (found,) = await examined("http://127.0.0.1:9", metrics=False)
    assert found.state is State.WARN
    assert "http://127.0.0.1:9/v1/traces cannot be reached" in found.said


async def test_the_certificates_are_those_of_the_exporter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, certificate, key = of_an_authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)
    async with collecting(context) as collector:
        (unknown,) = await examined(collector.url, metrics=False)
        assert "certificate verify failed" in unknown.said
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(authority))
        (anonymous,) = await examined(collector.url, metrics=False)
        assert anonymous.state is State.WARN
        monkeypatch.setenv(f"{OF_TRACES}_CLIENT_CERTIFICATE", str(certificate))
        monkeypatch.setenv(f"{OF_TRACES}_CLIENT_KEY", str(key))
        taken, refused = await examined(collector.url)
    assert (taken.state, refused.state) == (State.OK, State.WARN)


async def test_a_certificate_that_cannot_be_read_is_named(
    running: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/authority.pem")
    (found,) = await examined(running.url, metrics=False)
    assert found.state is State.WARN
    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in found.fix
