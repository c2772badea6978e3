"""What `backhaul doctor` reports about the collector of traces and metrics."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from backhaul.doctor import State, collector
from backhaul.observe.metrics import Metrics
from backhaul.observe.otel.telemetry import Telemetry as Exports
from backhaul.settings.telemetry import Telemetry
from scenes.certificates import (
    hash_of,
    locked_key,
    of_an_authority,
    of_this_machine,
)
from scenes.otlp_collector import Collector, collecting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.doctor import Result


AUTHORITY = "OTEL_EXPORTER_OTLP_CERTIFICATE"
OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES"


@pytest.fixture(autouse=True)
def _no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in collector.BUNDLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def running() -> AsyncIterator[Collector]:
    async with collecting() as opened:
        yield opened


async def examined(url: str, **settings: object) -> list[Result]:
    return await collector.check(
        Telemetry.model_validate({"otlp_endpoint": url, **settings})
    )


async def exports_to(url: str) -> bool:
    """Return whether the daemon's own exporter reaches the collector."""
    metrics = Metrics()
    dropped = metrics.counter("telemetry_dropped_total")
    telemetry = Exports(Telemetry(otlp_endpoint=url, traces=False), metrics)
    telemetry.export_metrics([])
    await asyncio.to_thread(telemetry.stop)
    return not sum(dropped.values())


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


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
@pytest.mark.parametrize("of_opentelemetry", ["", "/nowhere/authority.pem"])
async def test_the_variables_of_requests_come_first_as_for_the_exporter(
    of_opentelemetry: str,
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate, context = of_this_machine(tmp_path)
    monkeypatch.setenv(AUTHORITY, of_opentelemetry)
    monkeypatch.setenv(variable, str(certificate))
    async with collecting(context) as running:
        (found,) = await examined(running.url, metrics=False)
        exported = await exports_to(running.url)
    assert (found.state, exported) == (State.OK, True)


async def test_the_authorities_of_the_exporter_are_not_those_of_openssl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exporter does not read SSL_CERT_FILE: an ok would be wrong."""
    certificate, context = of_this_machine(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with collecting(context) as running:
        (found,) = await examined(running.url, metrics=False)
        exported = await exports_to(running.url)
    assert (found.state, exported) == (State.WARN, False)


async def test_a_folder_of_authorities_is_one_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, context = of_this_machine(tmp_path)
    folder = tmp_path / "authorities"
    folder.mkdir()
    (folder / f"{hash_of(certificate)}.0").symlink_to(certificate)
    monkeypatch.setenv(AUTHORITY, str(folder))
    async with collecting(context) as running:
        (found,) = await examined(running.url, metrics=False)
        exported = await exports_to(running.url)
    assert (found.state, exported) == (State.OK, True)


@pytest.mark.parametrize(
    "variable", [AUTHORITY, f"{OF_TRACES}_CLIENT_CERTIFICATE", "CURL_CA_BUNDLE"]
)
async def test_a_certificate_that_cannot_be_read_is_named(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/nowhere/authority.pem")
    (found,) = await examined("https://127.0.0.1:9", metrics=False)
    assert found.state is State.WARN
    assert f"cannot be used: /nowhere/authority.pem ({variable}): " in found.said


async def test_certificates_are_not_read_for_http(
    running: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (AUTHORITY, f"{OF_TRACES}_CLIENT_CERTIFICATE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, "/nowhere/authority.pem")
    (found,) = await examined(running.url, metrics=False)
    assert found.state is State.OK


async def test_a_key_with_a_passphrase_does_not_wait_for_somebody_to_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, certificate, key = of_an_authority(tmp_path)
    locked = locked_key(key)
    monkeypatch.setenv(f"{OF_TRACES}_CLIENT_CERTIFICATE", str(certificate))
    monkeypatch.setenv(f"{OF_TRACES}_CLIENT_KEY", str(locked))
    (found,) = await examined("https://127.0.0.1:9", metrics=False)
    assert found.state is State.WARN
    assert f"{locked} ({OF_TRACES}_CLIENT_KEY): the key has a passphrase" in found.said
