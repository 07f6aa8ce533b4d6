"""The dashboard for Grafana and the alert rules: what they ask for is there."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from evertick.app import measures
from evertick.app.measures import COUNTERS, GAUGES, HISTOGRAMS
from evertick.base.records.jobs import FunctionKind
from evertick.metrics import Metrics
from evertick.rules.schedules.fates import Fate
from tests.app.conftest import OpenApp

SOURCES = Path(measures.__file__).parents[1]
MONITORING = files("evertick") / "monitoring"
LABELS = {
    **{each.prometheus_name + "_total": set(each.labels) for each in COUNTERS},
    **{
        each.prometheus_name + end: {*each.labels, *(["le"] if end == "_bucket" else [])}
        for each in HISTOGRAMS
        for end in ("_bucket", "_count", "_sum")
    },
    **{each.prometheus_name: set(each.labels) for each in GAUGES},
}
"""The labels of every time series, by its name."""
VALUES = {
    "outcome": {"success", "failed", "canceled", "retried", "lost"},
    "state": {"due", "blocked", "later", "running", "alive", "lost"},
    "kind": set(FunctionKind),
    "fate": set(Fate),
}
SELECTOR = re.compile(r"\b(evertick_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")


def wrong_in(expression: str) -> list[str]:
    """What an expression asks for that no metric has."""
    wrong, known = [], set()
    for name, matchers in SELECTOR.findall(expression):
        labels = LABELS.get(name)
        if labels is None:
            wrong.append(f"metric {name}")
            continue
        known |= labels
        for label, _, value in MATCHER.findall(matchers):
            if label not in labels:
                wrong.append(f"label {label} of {name}")
            wrong += [f"{label}={each}" for each in value.split("|") if not _is_value(label, each)]
    grouped = {label.strip() for labels in GROUPING.findall(expression) for label in labels.split(",")}
    return wrong + [f"group {label}" for label in sorted(grouped - known)]


def _is_value(label: str, value: str) -> bool:
    if value.startswith("$"):
        return True
    if label == "event":
        return any(f'"{value}"' in path.read_text() for path in SOURCES.rglob("*.py"))
    return value in VALUES[label]


def dashboard() -> Any:
    return json.loads((MONITORING / "grafana.json").read_text())


def rules() -> Any:
    [group] = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def guide() -> list[str]:
    page = (SOURCES.parents[1] / "docs/guide/monitoring.md").read_text()
    return [line for block in re.findall(r"```promql\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]


def parsed(query: str) -> promql_parser.Expr:
    """A query as Prometheus reads it, with a value for each variable of Grafana's."""
    return promql_parser.parse(re.sub(r"\$__\w+", "5m", query))


@pytest.mark.parametrize("query", [*sorted(set(queries())), *(rule["expr"] for rule in rules()), *guide()])
def test_every_query_is_promql(query: str) -> None:
    assert parsed(query)


def test_a_query_that_is_no_promql_is_found() -> None:
    with pytest.raises(ValueError, match=r"unclosed|unexpected|invalid"):
        parsed("sum by (pool) (rate(evertick_jobs[$__rate_interval])")


def test_the_names_are_those_of_the_metrics(open_app: OpenApp) -> None:
    text = Metrics(open_app()).text().decode()
    families = {tuple(line.split()[2:]) for line in text.splitlines() if line.startswith("# TYPE")}
    always = {each.prometheus_name for each in GAUGES if not each.labels}
    expected = {(each.prometheus_name + "_total", "counter") for each in COUNTERS}
    expected |= {(each.prometheus_name, "histogram") for each in HISTOGRAMS}
    assert families == expected | {(name, "gauge") for name in always}


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_the_dashboard_asks_for_metrics_that_there_are(query: str) -> None:
    assert SELECTOR.search(query)
    assert wrong_in(query) == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_alerts_ask_for_metrics_that_there_are(rule: Any) -> None:
    assert SELECTOR.search(rule["expr"])
    assert wrong_in(rule["expr"]) == []
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    grouped = {label.strip() for labels in GROUPING.findall(rule["expr"]) for label in labels.split(",")}
    assert used <= grouped


def test_alerts_of_the_guide_ask_for_metrics_that_there_are() -> None:
    assert guide()
    assert [wrong for line in guide() for wrong in wrong_in(line)] == []


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("evertick_job", ["metric evertick_job"]),
        ('evertick_jobs{fate="x"}', ["label fate of evertick_jobs", "fate=x"]),
        ('evertick_jobs{state="lates"}', ["state=lates"]),
        ("sum by (tenant) (evertick_jobs)", ["group tenant"]),
        ('evertick_engine_events_total{event="no_such_event_at_all"}', ["event=no_such_event" + "_at_all"]),
    ],
)
def test_a_query_for_what_is_not_there_is_found(expression: str, wrong: list[str]) -> None:
    assert wrong_in(expression) == wrong


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    found = dashboard()
    assert found["schemaVersion"] == 39
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    assert [panel["title"] for panel in found["panels"] if panel["type"] == "row"] == [
        "Health", "Jobs", "Schedules", "Pools", "Workers", "Database",
    ]  # fmt: skip
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert list(variables) == ["datasource", "app", "function", "pool"]
    used = set(re.findall(r"\$(\w+)", " ".join(queries()))) - {"__rate_interval"}
    assert used == variables.keys() - {"datasource"}
    for each in list(variables.values())[1:]:
        label = re.fullmatch(r"label_values\((.*), (\w+)\)", each["definition"])
        assert label and label[2] == each["name"] and wrong_in(label[1]) == []
        assert label[2] in LABELS[SELECTOR.match(label[1])[1]]  # type: ignore[index]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in found["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in found["panels"])
