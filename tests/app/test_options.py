"""Options are checked where they are given: what is accepted is stored, is displayed, and is what acts."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from inspect import signature
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from evertick import App, MutationCtx, QueryCtx, Retry, Step, every
from evertick.app.decorators import FunctionOptions, WorkflowOptions
from evertick.app.limits.declared import PoolChanges
from evertick.app.limits.tenants import TenantChanges
from evertick.app.schedules.options import CreateOptions, CronOptions, UpdateOptions
from evertick.app.scheduling.job_builder import JobOptions
from evertick.engine.runtime.settings import Settings
from evertick.errors import FunctionNotFound, Misuse
from evertick.rules.workflows.step import StepOptions, _checked
from evertick.testing import World
from tests.sampling import examples, one_in


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(2_000):
        value = [value]
    return value


HOSTILE: Mapping[str, Any] = {
    "None": None, "True": True, "False": False, "'false'": "false", "empty": "", "space": " ", "x": "x", "0": 0,
    "1": 1, "-1": -1,
    "'3'": "3", "huge": 10**5000, "-huge": -(10**5000), "10**30": 10**30, "1.5": 1.5, "nan": math.nan, "inf": math.inf,
    "-inf": -math.inf, "bytes": b"x", "[]": [], "{}": {}, "()": (), "['x']": ["x"], "[[]]": [[]], "set": {1},
    "object": object(), "unprintable": Unprintable(), "-1us": timedelta(microseconds=-1), "0s": timedelta(0),
    "max": timedelta.max, "min": timedelta.min, "naive": datetime(2026, 1, 1), "utc": datetime(2026, 1, 1, tzinfo=UTC),
    "last": datetime.max.replace(tzinfo=UTC), "first": datetime.min.replace(tzinfo=UTC), "date": date(2026, 1, 1),
    "surrogate": "\ud800", "nul": "a\0b", "bell": "a\x07b", "long": "a" * 100_000, "zone": ZoneInfo("UTC"),
    "lambda": lambda ctx: None, "type": int, "retry": Retry(3), "{nan}": {"a": math.nan}, "{1: 2}": {1: 2},
    "deep": deep(), "job id": "job_42", "dots": "..",
}  # fmt: skip


class Doors:
    """Ways to give an option, each followed by what uses it: the second must not raise if the first did not."""

    def __init__(self, world: World) -> None:
        self.world, self.app, self._number = world, world.app, 0
        self._plain: str | None = None  # a schedule that no update has changed yet

        @self.app.mutation(name="note")
        def note(ctx: MutationCtx) -> None: ...

        @self.app.query(name="look")
        def look(ctx: QueryCtx) -> None: ...

        @self.app.workflow(name="flow")
        async def flow(step: Step) -> None: ...

        self.note, self.flow, self.wrong = note, flow, look

    def name(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def create(self, option: str, value: Any) -> None:
        found = self.app.schedules.create(self.name(), when=every(hours=1), do=self.note, **{option: value})
        self._read(found.id, option, value)

    def update(self, option: str, value: Any) -> None:
        if self._plain is None:
            self._plain = self.app.schedules.create(self.name(), when=every(hours=1), do=self.note).id
        self.app.schedules.update(self._plain, **{option: value})
        changed, self._plain = self._plain, None
        self._read(changed, option, value)

    def cron(self, option: str, value: Any) -> None:
        self.app.crons.using(**{option: value})

    def job(self, option: str, value: Any) -> None:
        scheduler = self.app.scheduler.using(**{option: value})
        try:
            job_id = scheduler.run_after(60, self.note)
        except (Misuse, FunctionNotFound):
            assert option in ("context", "on_complete"), option  # they are checked together, with the call
            return
        assert self.app.jobs.get(job_id).to_json()
        if option == "key" and value is not None:
            assert self.app.jobs.get(value).id == job_id
        self.app.scheduler.cancel(job_id)

    def step(self, option: str, value: Any) -> None:
        _checked(StepOptions(**{option: value}))

    def function(self, option: str, value: Any) -> None:
        app = App(self.name())
        if option in options_of(FunctionOptions):
            app.mutation(**{option: value})(lambda ctx: None)
        else:

            async def code(step: Step) -> None: ...

            app.workflow(**{option: value})(code)

    def pool(self, option: str, value: Any) -> None:
        assert getattr(self.app.pools.set("mail", **{option: value}).limits, option) == value

    def tenant(self, option: str, value: Any) -> None:
        assert getattr(self.app.tenants.set("acme", **{option: value}).limits, option) == value
        self.app.tenants.set("acme", **{option: None})

    def settings(self, option: str, value: Any) -> None:
        assert getattr(Settings(**{option: value}), option) == value

    def retry(self, option: str, value: Any) -> None:
        assert Retry(**{"attempts": 3, option: value}).to_json()

    def application(self, option: str, value: Any) -> None:
        App(**{"name": "x", option: value})

    def _read(self, schedule_id: str, option: str, value: Any) -> None:
        found = self.app.schedules.get(schedule_id)
        assert found.to_json()
        if value is not None and option in ("concurrency_limit", "pause_on_failure", "buffer_limit"):
            assert getattr(found.policies, option) is value or type(value) is int
            assert getattr(found.policies, option) == value
        self.app.schedules.explain(schedule_id, datetime(2026, 1, 1, tzinfo=UTC))
        self.world.advance(1)
        self.app.schedules.delete(schedule_id)


DOORS: Mapping[Callable[..., None], Any] = {
    Doors.create: CreateOptions, Doors.update: UpdateOptions, Doors.cron: CronOptions, Doors.job: JobOptions,
    Doors.step: StepOptions, Doors.function: WorkflowOptions, Doors.pool: PoolChanges, Doors.tenant: TenantChanges,
    Doors.settings: Settings,
}  # fmt: skip
NOT_OPTIONS = ("when", "do", "if_version")


def options_of(kind: Any) -> list[str]:
    """The keywords of a record, without those that are no options."""
    keywords = [each.name for each in signature(kind).parameters.values() if each.kind is each.KEYWORD_ONLY]
    return [name for name in keywords if name not in NOT_OPTIONS]


OPTIONS = [
    *((door, option) for door, kind in DOORS.items() for option in options_of(kind)),
    *((Doors.retry, option) for option in ("attempts", "first", "factor", "cap", "jitter")),
    *((Doors.application, option) for option in ("name", "aliases", "database_url", "settings")),
]


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    with World(App("options"), crons=False) as world:
        yield Doors(world)


def give(doors: Doors, door: Callable[..., None], option: str, value: Any) -> None:
    """Give an option: it is refused with Misuse and a short text, or works from then on."""
    try:
        door(doors, option, value)
    except Misuse as error:
        assert str(error).isprintable()
        assert len(str(error)) < 1_000


@pytest.mark.parametrize(("door", "option"), one_in(4, OPTIONS), ids=lambda each: getattr(each, "__name__", each))
def test_a_hostile_value_is_refused_at_once_or_works(doors: Doors, door: Callable[..., None], option: str) -> None:
    wrong = []
    for name, value in HOSTILE.items():
        try:
            give(doors, door, option, value)
        except Exception as error:
            wrong.append((name, repr(error)[:200]))

    assert not wrong


@examples(50, suppress_health_check=list(HealthCheck))
@given(
    which=st.sampled_from(OPTIONS),
    value=st.one_of(
        st.integers(), st.floats(), st.text(), st.binary(), st.timedeltas(), st.datetimes(), st.none(), st.booleans(),
        st.datetimes(timezones=st.just(UTC)), st.lists(st.text()), st.dictionaries(st.text(), st.floats()),
    ),
)  # fmt: skip
def test_any_value_is_refused_at_once_or_works(doors: Doors, which: Any, value: Any) -> None:
    door, option = which
    give(doors, door, option, value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pause_on_failure": "false"}, "pause_on_failure= takes True or False, not 'false'"),
        ({"pause_on_failure": 1}, "pause_on_failure= takes True or False, not 1"),
        ({"retry": 3}, "retry= takes a policy such as Retry(5), not 3"),
        ({"concurrency_limit": True}, "concurrency_limit= takes a whole number from 1 to 10,000, not True"),
        ({"concurrency_limit": "2"}, "concurrency_limit= takes a whole number from 1 to 10,000, not '2'"),
        ({"buffer_limit": 1.0}, "buffer_limit= takes a whole number from 0 to 1,000, not 1.0"),
        ({"catch_up": True}, "catch_up is one of all, latest, none, not True"),
        ({"catch_up_window": timedelta.max}, "catch_up_window= is from 0:00:00 to 36600 days"),
        ({"note": 7}, "note= takes text, not 7"),
    ],
)
def test_options_of_schedules_and_crons_are_refused_alike(doors: Doors, options: dict[str, Any], says: str) -> None:
    app = doors.app
    with pytest.raises(Misuse, match=re.escape(says)):
        app.schedules.create("refused", when=every(hours=1), do=doors.note, **options)
    with pytest.raises(Misuse, match=re.escape(says)):
        app.crons.using(**options)
