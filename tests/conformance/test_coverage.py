"""Every fact is covered by a test here, or stands below with the reason why not."""

import importlib
import json
from pathlib import Path

from tests.conformance.facts import COVERED

FACTS = Path(__file__).parent.parent / "vectors" / "convex_scheduling.jsonl"

LATER = {
    "protocol.": "values, HTTP and WebSocket belong to the server",
    "scheduled.reactive": "a subscription needs the server; what it would push is tested in test_running",
}


def test_every_fact_is_covered_by_a_test_or_belongs_to_a_later_part() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.conformance.{path.stem}")
    facts = [json.loads(line) for line in FACTS.read_text().splitlines()]
    here = {fact["id"] for fact in facts if not fact["area"].startswith(tuple(LATER))}

    assert len(facts) == 74
    assert here - COVERED.keys() == set()


def test_no_test_claims_a_fact_that_does_not_exist() -> None:
    known = {json.loads(line)["id"] for line in FACTS.read_text().splitlines()}

    assert set(COVERED) - known == set()
