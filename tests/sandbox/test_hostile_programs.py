"""Hostile programs are contained: they end within their limits, as customers can understand, and the next run works."""

import json

import pytest

from evertick.sandbox import Ended, Outcome, Sandbox
from tests.sandbox.conftest import QUICK, javascript, python
from tests.sandbox.programs import JAVASCRIPT, MORE_JAVASCRIPT, MORE_PYTHON, PYTHON

ALARMS = {Outcome.VIOLATION, Outcome.CRASH, Outcome.INTERNAL, Outcome.KILLED}
"""Outcomes that no program of a customer can cause."""
CLEVER = {"regex-lookbehind", "regex-nested", "microtask-after", "count-in"}
"""Programs that an engine answers at once, though they look endless."""
LATE_MS = 600


def judge(name: str, kind: str, ended: Ended) -> None:
    assert ended.outcome not in ALARMS, ended
    assert ended.cpu_ms <= QUICK.cpu_ms + LATE_MS, ended
    assert ended.wall_ms <= QUICK.wall_ms + LATE_MS, ended
    assert sum(len(line.text.encode()) for line in ended.logs) <= QUICK.log_bytes
    if ended.outcome is not Outcome.OK:
        assert ended.error is not None and (ended.error.message or ended.error.name), ended
        assert len(ended.error.message.encode()) <= 2_048 and len(ended.error.stack.encode()) <= 4_096
    if kind == "ok":
        assert (ended.outcome, ended.limit) == (Outcome.OK, None), ended
        assert json.loads(ended.result or "") in ([], "none", {"v": 1}), ended.result
    elif kind == "stop":
        assert ended.outcome is not Outcome.OK or name in CLEVER, ended
    elif kind != "any":
        outcome, _, limit = kind.partition(":")
        assert (ended.outcome, ended.limit or "") == (outcome, limit), ended


@pytest.mark.parametrize(("name", "kind", "body"), JAVASCRIPT + MORE_JAVASCRIPT, ids=lambda value: str(value)[:24])
def test_a_program_of_javascript_is_contained(sandbox: Sandbox, name: str, kind: str, body: str) -> None:
    judge(name, kind, sandbox.run(javascript(body, name)))

    assert sandbox.run(javascript("return 1")).result == "1"


@pytest.mark.parametrize(("name", "kind", "body"), PYTHON + MORE_PYTHON, ids=lambda value: str(value)[:24])
def test_a_program_of_python_is_contained(sandbox: Sandbox, name: str, kind: str, body: str) -> None:
    limits = QUICK._replace(wall_ms=1_000) if "sleep" in name else QUICK
    judge(name, kind, sandbox.run(python(body, name, limits)))

    assert sandbox.run(javascript("return 1")).result == "1"
