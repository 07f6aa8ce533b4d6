"""Schemas: every value reads back from its JSON form, and help says what every option means."""

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from evertick.api.jobs import JobView
from evertick.api.reports import AuditReport, Explanation
from evertick.api.schedules import OccurrencePage, ScheduleDescription, SchedulePage
from evertick.api.schema import Schema
from evertick.app.schedules.api import AsyncSchedules, Schedules
from evertick.app.schedules.options import CreateOptions
from evertick.functions import Retry
from evertick.recurrence.builders import daily, every
from evertick.testing import World
from tests.schedules.api_app import START, app, minutes, tick

OpenWorld = Callable[..., World]


def test_every_schema_reads_back_from_its_json(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create(
        "s", when=every(minutes=1), do=tick, retry=Retry(3), overlap="buffer_one", jitter=0, memo={"a": [1]}
    )
    app.schedules.create("p", when=daily(hour=9, tz="Europe/Berlin"), do=tick, paused=True, note="later")
    w.advance(150)
    values: list[Schema] = [
        app.schedules.get("s"),
        app.schedules.get("p"),
        app.schedules.list(),
        app.schedules.occurrences("s"),
        app.schedules.explain("s", minutes(1)),
        app.schedules.audit(START, w.now),
    ]

    for value in values:
        text = json.dumps(value.to_json())
        assert type(value).model_validate(json.loads(text)) == value

    kinds = [ScheduleDescription, ScheduleDescription, SchedulePage, OccurrencePage, Explanation, AuditReport]
    assert [type(value) for value in values] == kinds


def test_the_names_of_a_schema_are_the_keys_of_its_json(world: OpenWorld) -> None:
    world(app)
    made = app.schedules.create("s", when=every(minutes=1), do=tick)

    assert tuple(made.to_json()) == ScheduleDescription.names()
    assert {"function", "state", "due_at"} <= set(JobView.names())


@pytest.mark.parametrize("group", [Schedules, AsyncSchedules])
def test_help_says_what_every_option_of_create_means(group: Any) -> None:
    text = group.create.__doc__

    assert [each.name for each in fields(CreateOptions) if f"`{each.name}`" not in text] == ["schedule_id"]
