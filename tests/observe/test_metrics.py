"""The table of metrics, and what Prometheus reads of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backhaul.observe.metrics import METRICS, PREFIX, GaugeValue, Metrics
from scenes.requirements import require

ROOT = Path(__file__).parents[2]


def samples(told: bytes) -> dict[str, float]:
    """Return each value by its name and its labels' values, in the table's order."""
    return {
        " ".join([sample.name, *in_order(sample.name, sample.labels)]): sample.value
        for family in text_string_to_metric_families(told.decode())
        for sample in family.samples
    }


def in_order(name: str, labels: dict[str, str]) -> list[str]:
    """Return the values; the bound of a bucket last."""
    called = re.sub("_(bucket|sum|count)$", "", name.removeprefix(PREFIX))
    known = METRICS[called].labels if called in METRICS else ()
    return [labels[label] for label in (*known, "le") if label in labels]


def test_counted_values_are_exported() -> None:
    metrics = Metrics()
    metrics.counter("webhooks_total")["main", "kept"] += 2
    metrics.count_request("main", "GET", "200", 0.2)
    found = samples(metrics.render([]))
    assert found["backhaul_webhooks_total main kept"] == 2
    assert found["backhaul_platform_requests_total main GET 200"] == 1
    assert found["backhaul_platform_seconds_sum main GET"] == pytest.approx(0.2)
    assert found["backhaul_platform_seconds_bucket main GET 0.25"] == 1
    assert found["backhaul_platform_seconds_bucket main GET 0.1"] == 0


def test_a_gauge_that_nothing_says_any_more_is_gone() -> None:
    metrics = Metrics()
    parked = GaugeValue("commands_open", 3, ("main", "adjust", "parked"))
    assert "backhaul_commands_open main adjust parked" in samples(
        metrics.render([parked])
    )
    assert [
        name for name in samples(metrics.render([])) if "commands_open" in name
    ] == []


def test_two_daemons_share_no_number() -> None:
    one, other = Metrics(), Metrics()
    one.counter("events_folded_total")[()] += 5
    assert "backhaul_events_folded_total" not in samples(other.render([]))


@pytest.mark.parametrize("name", METRICS)
def test_a_name_follows_the_conventions(name: str) -> None:
    meaning = METRICS[name]
    assert re.fullmatch("[a-z_]+", name)
    assert meaning.sentence.endswith(".")
    assert name.endswith("_total") == (meaning.kind == "counter")
    if meaning.kind == "histogram":
        assert name.endswith("_seconds")


def test_the_page_lists_every_number() -> None:
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \| ([^|]*) \|", page, re.MULTILINE)
    listed = [(name, kind, labels.strip()) for name, kind, labels in rows]
    assert listed == [
        (PREFIX + name, meaning.kind, ", ".join(meaning.labels))
        for name, meaning in METRICS.items()
    ]


SUFFIXES = ("_bucket", "_sum", "_count")
USERS = ["config/alerts.rules.yml", "config/grafana.dashboard.json"]


@pytest.mark.parametrize("path", USERS)
def test_rules_and_charts_use_numbers_that_exist(path: str) -> None:
    used = set(re.findall(r"\bbackhaul_[a-z_]+", (ROOT / path).read_text("utf-8")))
    assert used
    known = {PREFIX + name for name in METRICS}
    known |= {name + suffix for name in known for suffix in SUFFIXES}
    assert used - known == set()


def promtool(*arguments: object) -> None:
    done = subprocess.run(
        [require("promtool"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_for_its_cause_only() -> None:
    promtool("check", "rules", "--lint-fatal", ROOT / "config/alerts.rules.yml")
    promtool("test", "rules", Path(__file__).with_name("alerts.test.yml"))


def test_an_alert_that_never_fires_is_found(tmp_path: Path) -> None:
    rules = (ROOT / "config/alerts.rules.yml").read_text("utf-8")
    (tmp_path / "config").mkdir()
    deaf = rules.replace('state="parked"', 'state="nobody"')
    (tmp_path / "config/alerts.rules.yml").write_text(deaf)
    (tmp_path / "tests/observe").mkdir(parents=True)
    tests = Path(__file__).with_name("alerts.test.yml")
    copied = shutil.copy(tests, tmp_path / "tests/observe")
    with pytest.raises(AssertionError, match="BackhaulCommandsParked"):
        promtool("test", "rules", copied)


def test_the_charts_can_be_imported() -> None:
    board = json.loads((ROOT / "config/grafana.dashboard.json").read_text("utf-8"))
    charts = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert all(panel["targets"] and panel["title"] for panel in charts)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
