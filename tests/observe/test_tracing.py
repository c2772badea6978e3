"""Spans: which trace they continue, which are exported, and what log lines contain."""

from __future__ import annotations

import json

import pytest
from loguru import logger

from backhaul.observe import logs
from backhaul.runtime.tracing import attributes_of_object, present_span, working_on
from scenes.spans import traced

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


def test_a_trace_of_another_program_is_continued() -> None:
    with traced() as (tracer, exported):
        span = tracer.begin("work", "server", {}, SAMPLED)
        assert (span.trace_id, span.traceparent[:35]) == (TRACE, f"00-{TRACE}")
        assert span.span_id not in {SPAN, "0" * 16}
        span.end()
    (only,) = exported
    assert only.parent is not None
    assert f"{only.parent.span_id:016x}" == SPAN


@pytest.mark.parametrize(
    "header",
    ["", "x", f"00-{'0' * 32}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01", SAMPLED * 9, 5],
)
def test_a_header_that_cannot_be_read_begins_a_new_trace(header: object) -> None:
    with traced() as (tracer, exported):
        span = tracer.begin("work", "server", {}, header)  # type: ignore[arg-type]
        assert span.trace_id not in {TRACE, "0" * 32}
        span.end()
    assert [each.parent for each in exported] == [None]


def test_an_unsampled_trace_is_named_and_not_exported() -> None:
    with traced() as (tracer, exported):
        span = tracer.begin("work", "server", {}, NOT_SAMPLED)
        assert (span.trace_id, span.traceparent[-2:]) == (TRACE, "00")
        span.child("more", "client", {}).end()
        span.end()
    assert exported == []


@pytest.mark.parametrize(("ratio", "number"), [(0.0, 0), (1.0, 20)])
def test_the_ratio_is_that_of_new_traces(ratio: float, number: int) -> None:
    with traced(ratio) as (tracer, exported):
        for _ in range(20):
            tracer.begin("work", "internal", {}).end()
    assert len(exported) == number


def test_a_span_never_uses_the_current_span_as_its_parent() -> None:
    with (
        traced() as (tracer, exported),
        working_on(tracer.begin("work", "internal", {})),
    ):
        tracer.begin("other", "internal", {}).end()
    assert [each.parent for each in exported] == [None]


def test_the_present_span_ends_with_its_block() -> None:
    with traced() as (tracer, _):
        outer = tracer.begin("work", "internal", {})
        with working_on(outer):
            with working_on(None):
                assert present_span() is outer
            assert present_span() is outer
        assert present_span() is None


def test_a_line_says_its_span(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("INFO", "json")
    with traced() as (tracer, _):
        span = tracer.begin("work", "internal", {}, SAMPLED)
        with working_on(span):
            logger.bind(action="test.one").info("within")
        logger.bind(action="test.two").info("outside")
    one, two = map(json.loads, capsys.readouterr().err.splitlines())
    assert (one["trace_id"], one["span_id"]) == (TRACE, span.span_id)
    assert {"trace_id", "span_id"}.isdisjoint(two)


def test_a_line_of_text_says_its_span_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("INFO", "text")
    with traced() as (tracer, _):
        span = tracer.begin("work", "internal", {}, SAMPLED)
        with working_on(span):
            logger.bind(action="test.one").info("within")
    assert f"trace_id={TRACE} span_id={span.span_id}" in capsys.readouterr().err


def test_a_customer_is_not_named() -> None:
    assert attributes_of_object("order", "ord_1") == {"backhaul.order": "ord_1"}
    assert attributes_of_object("level", "prod_1") == {"backhaul.product": "prod_1"}
    assert attributes_of_object("customer", "cus_1") == {}
