"""A Prometheus for tests: what an app's metrics were at each minute, and which shipped alerts fire for them.

The samples are those of real scrapes. The rules are evaluated by promtool, of Debian's package `prometheus`.
"""

import json
import subprocess
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.debian import installed

RULES: Final = files("evertick") / "monitoring" / "alerts.yaml"
NOTHING: Final = "_"
GONE: Final = "stale"
"""What Prometheus writes once for a series that the last scrape had and this one has not."""


class Alert(NamedTuple):
    """An alert that fires: its name, its labels without the severity, and its summary."""

    name: str
    labels: Mapping[str, str]
    summary: str


class Prometheus:
    """Scrapes of the instances of an app, and evaluations of the rules, `step` apart."""

    def __init__(self, step: timedelta = timedelta(minutes=1)) -> None:
        self._step = step
        self._first: datetime | None = None
        self._scrapes: dict[str, dict[int, dict[str, str]]] = {}
        self._expected: dict[int, list[Alert]] = {}

    def scrape(self, at: datetime, text: bytes | None, *, instance: str = "worker-1") -> None:
        """What an instance showed at a moment; None if it could not be reached. It shows this until the next scrape."""
        number = self._number(at)
        found = {} if text is None else series_of(text.decode(), instance)
        self._scrapes.setdefault(instance, {})[number] = found

    def expect(self, at: datetime, *alerts: Alert) -> None:
        """These alerts fire at a moment, and no others."""
        self._expected[self._number(at)] = list(alerts)

    def check(self, folder: Path) -> None:
        """Let promtool evaluate the shipped rules over all scrapes, and compare."""
        rules = folder / "alerts.yaml"
        rules.write_text(RULES.read_text())
        [group] = yaml.safe_load(RULES.read_text())["groups"]
        severities = {rule["alert"]: rule["labels"]["severity"] for rule in group["rules"]}
        interval_s = round(self._step.total_seconds())
        test = {
            "rule_files": [str(rules)],
            "evaluation_interval": f"{interval_s}s",
            "tests": [
                {
                    "interval": f"{interval_s}s",
                    "input_series": self._input(max(self._expected)),
                    "alert_rule_test": [
                        {
                            "eval_time": f"{number * interval_s}s",
                            "alertname": name,
                            "exp_alerts": [
                                {
                                    "exp_labels": {**alert.labels, "severity": severities[name]},
                                    "exp_annotations": {"summary": alert.summary},
                                }
                                for alert in expected
                                if alert.name == name
                            ],
                        }
                        for number, expected in self._expected.items()
                        for name in severities
                    ],
                }
            ],
        }
        file = folder / "test.json"
        file.write_text(json.dumps(test))
        promtool = installed(("promtool",), packages=(("prometheus",),))
        done = subprocess.run([promtool, "test", "rules", file], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {alert.name for expected in self._expected.values() for alert in expected} <= severities.keys()

    def _number(self, at: datetime) -> int:
        self._first = self._first or at
        return (at - self._first) // self._step

    def _input(self, last: int) -> list[dict[str, str]]:
        """Every series with its values at each step, as promtool reads them."""
        found = []
        for scrapes in self._scrapes.values():
            for name in sorted({name for scraped in scrapes.values() for name in scraped}):
                values, now = [], NOTHING
                for number in range(last + 1):
                    gone = NOTHING if now in (NOTHING, GONE) else GONE
                    if number in scrapes:
                        now = scrapes[number].get(name, gone)
                    elif now == GONE:
                        now = NOTHING
                    values.append(now)
                found.append({"series": name, "values": " ".join(values)})
        return found


def series_of(text: str, instance: str) -> dict[str, str]:
    """The samples of a scrape as Prometheus keeps them: with the instance, and without empty labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {**sample.labels, "instance": instance}
            words = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items() if value)
            found[f"{sample.name}{{{words}}}"] = repr(float(sample.value))
    return found
