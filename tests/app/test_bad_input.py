"""What cannot be meant is refused where it is written, with the name of the wrong thing and what would be right."""

import functools
import re
from datetime import timedelta
from typing import Any

import pytest

from evertick import App, Retry, every
from evertick.base.errors import InvalidArguments, InvalidDelay, InvalidSpec, Misuse, RegistrationError
from evertick.engine.runtime.settings import Settings


class AsyncCallable:
    """An object whose call is an `async def`."""

    async def __call__(self, ctx: Any) -> None:
        """Nothing."""


def yields(ctx: Any) -> Any:
    """A generator: nothing of it runs when it is called."""
    yield 1


async def yields_later(ctx: Any) -> Any:
    """An asynchronous generator."""
    yield 1


@pytest.mark.parametrize("kind", ["query", "mutation"])
def test_a_transaction_in_disguise_of_a_coroutine_is_refused(kind: str) -> None:
    with pytest.raises(
        RegistrationError, match=rf"later is an `async def` {kind}: .*plain `def`, or make it an action"
    ):
        getattr(App("bad"), kind)(name="later")(AsyncCallable())


@pytest.mark.parametrize("kind", ["query", "mutation", "action"])
@pytest.mark.parametrize("handler", [yields, yields_later])
def test_a_generator_is_no_function_that_can_run(kind: str, handler: Any) -> None:
    with pytest.raises(RegistrationError, match=r"many has a `yield`, .* return a list instead"):
        getattr(App("bad"), kind)(name="many")(handler)


def test_what_has_no_name_of_its_own_must_be_given_one() -> None:
    app = App("bad")
    nameless = functools.partial(lambda ctx, n: n, n=1)

    with pytest.raises(RegistrationError, match=r"has no name of its own; give it one with name="):
        app.mutation(nameless)
    with pytest.raises(RegistrationError, match=r"bare needs a first parameter for its context: def bare\(ctx, ...\)"):
        app.mutation(name="bare")(functools.partial(nameless, None))


@pytest.mark.parametrize("timeout", [0, 0.0001, timedelta(0)])
def test_a_function_without_any_time_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidDelay, match=r"timeout= is from 0:00:00\.001"):
        App("bad").mutation(timeout=timeout)


@pytest.mark.parametrize("delay", [10**400, 1e308, -(10**400)])
def test_a_delay_beyond_all_numbers_is_refused_like_any_other(delay: Any) -> None:
    app = App("bad", database_url="sqlite://")
    app.mutation(name="tick")(lambda ctx: None)

    with pytest.raises(InvalidDelay, match=r"delay must (be at most|not be negative)"):
        app.scheduler.run_after(delay, "tick")
    app.close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attempts": 2.5}, "attempts= takes a whole number from 1 to 1,000, not 2.5"),
        ({"attempts": "3"}, "attempts= takes a whole number from 1 to 1,000, not '3'"),
        ({"attempts": True}, "attempts= takes a whole number from 1 to 1,000, not True"),
        ({"factor": "2"}, "factor= takes a number from 1 to 100, not '2'"),
        ({"jitter": None}, "jitter= takes a number from 0 to 0.5, not None"),
    ],
)
def test_a_retry_of_no_numbers_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Misuse, match=says):
        Retry(**{"attempts": 3} | changes)


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("batch", 0, 1), ("tenants", 0, 1), ("action_slots", -1, 0), ("runs_in_memory", 0.5, 0)],
)
def test_settings_with_which_nothing_goes_on_are_refused(name: str, value: Any, least: int) -> None:
    with pytest.raises(Misuse, match=rf"Settings\({name}=...\) takes a whole number from {least} to .*, not {value}"):
        Settings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("poll", timedelta(0), "0:00:00.001000"), ("drain", timedelta(-1), "0:00:00"),
        ("retention", 604_800_000, "0:00:00"), ("lease", timedelta.max, "0:00:00"),
    ],
)  # fmt: skip
def test_settings_take_durations_as_timedeltas(name: str, value: Any, least: str) -> None:
    """A number would be seconds in other calls; a value that long is refused rather than guessed."""
    shown = re.escape(repr(value)[:60])
    says = rf"Settings\({name}=...\) takes a timedelta from {least} to 11,574 days, .*, not {shown}"
    with pytest.raises(Misuse, match=says):
        Settings(**{name: value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retry": 3}, r"retry= takes a policy such as Retry\(5\), not 3"),
        ({"on_complete": 3}, "on_complete= takes a registered mutation or action, or its name, not 3"),
        ({"on_conflict": "perhaps"}, "on_conflict= takes one of keep, replace, error, not 'perhaps'"),
    ],
)
def test_options_of_another_kind_are_refused_before_anything_is_scheduled(options: dict[str, Any], says: str) -> None:
    app = App("bad", database_url="sqlite://")

    with pytest.raises(Misuse, match=says):
        app.scheduler.using(**options)
    app.close()


def test_an_address_that_is_no_text_is_refused() -> None:
    with pytest.raises(Misuse, match="database_url= takes an address, such as sqlite:///FILE"):
        App("bad", database_url=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("calls", [None, 5, [None], ["tick"], [("tick", 1)]])
def test_what_is_no_call_is_refused_in_bulk(calls: Any) -> None:
    app = App("bad", database_url="sqlite://")
    tick: Any = app.mutation(name="tick")(lambda ctx: None)

    for wrong in (calls, [tick], tick.with_args()):
        with pytest.raises(Misuse, match=r"\[fn\.with_args\(1\), fn\.with_args\(2\)\], not "):
            app.scheduler.run_after_many(0, wrong)
        with pytest.raises(Misuse, match=r"\[fn\.with_args\(1\), fn\.with_args\(2\)\], not "):
            app.scheduler.run_at_many(0, wrong)
    assert app.scheduler.run_after_many(0, (tick.with_args() for _ in range(2)))
    assert app.scheduler.run_after_many(0, []) == []
    app.close()


@pytest.mark.parametrize("function", [5, b"tick", len])
def test_what_is_no_function_is_refused_when_all_of_it_is_to_be_canceled(function: Any) -> None:
    app = App("bad", database_url="sqlite://")

    with pytest.raises(Misuse, match="is not a function of the app, nor the name of one"):
        app.scheduler.cancel_all(function)
    app.close()


@pytest.mark.parametrize(
    ("misuse", "kind", "says"),
    [
        (lambda app, bill: app.scheduler.run_after(bill, 5), InvalidDelay, r"delay comes first: run_after\(5, bill, "),
        (lambda app, bill: app.scheduler.run_at(bill, 5), InvalidDelay, r"time comes first: run_at\(at, bill, "),
        (lambda app, bill: app.scheduler.run_after(5, 5), Misuse, "5 is not a registered function: give one that is"),
        (
            lambda app, bill: app.scheduler.run_after(5, bill, retry=Retry(3)),
            InvalidArguments,
            r"retry: the function has no such parameter \(options of jobs are given with using\(retry=...\)\)$",
        ),
        (
            lambda app, bill: app.scheduler.run_after(5, bill, dealy=3),
            InvalidArguments,
            "dealy: the function has no such parameter$",
        ),
        (
            lambda app, bill: app.schedules.create("x", when={"cron": "0 9 * * *"}, do=bill),
            Misuse,
            r"a list of these, not \{'cron'",
        ),
        (
            lambda app, bill: app.schedules.create("x", when="every hour", do=bill, overlap="bufferone"),
            Misuse,
            "overlap is one of skip, .*, not 'bufferone'",
        ),
        (lambda app, bill: Retry(3, first=timedelta(400)), Misuse, r"cap= \(1 day.*shorter than first= \(400 days"),
        (lambda app, bill: every(5), InvalidSpec, r"the interval of every\(\) must be a timedelta, not int"),
    ],
)
def test_arguments_in_the_wrong_place_are_refused_with_the_right_place(misuse: Any, kind: Any, says: str) -> None:
    app = App("bad", database_url="sqlite://")
    bill = app.mutation(name="bill")(lambda ctx: None)
    app.migrate()

    with pytest.raises(kind, match=says):
        misuse(app, bill)
    app.close()


def test_a_page_yields_its_rows() -> None:
    with App("pages", database_url="sqlite://") as app:
        app.mutation(name="bill")(lambda ctx: None)
        app.migrate()
        ids = [app.scheduler.run_after(60, "bill"), app.scheduler.run_after(30, "bill")]

        assert {job.id for job in app.jobs.list()} == set(ids)
        assert [run.id for run in app.workflows.list()] == []
