"""Options are visible: public callables list them in their signatures, as the fields of the records that check them."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from typing import Any, get_overloads

import pytest

from evertick import App, Step
from evertick.app.decorators import Decorators, FunctionOptions, WorkflowOptions
from evertick.app.functions.function import OPTION_NAMES
from evertick.app.limits.declared import PoolChanges, PoolDeclaration
from evertick.app.limits.tenants import TenantChanges
from evertick.app.schedules.options import CreateOptions, CronOptions, ReplaceOptions, UpdateOptions
from evertick.app.scheduling.job_builder import JobOptions, RunOptions, SentJobOptions, SentRunOptions
from evertick.client import AsyncClient, Client
from evertick.client.groups import (
    AsyncScheduler,
    AsyncWorkflows,
    Scheduler,
    Workflows,
)
from evertick.client.groups import AsyncSchedules as SentAsyncSchedules
from evertick.client.groups import Schedules as SentSchedules
from evertick.client.schedules import Change, Creation, Replacement
from evertick.rules.schedules.policies import DEFAULT_POLICIES
from evertick.rules.workflows.step import StepOptions
from evertick.schedules import AsyncSchedules, Schedules
from tools.public_names import MODULES

RECORDS: list[tuple[Callable[..., Any], type]] = [
    *((each.create, CreateOptions) for each in (Schedules, AsyncSchedules)),
    *((each.update, UpdateOptions) for each in (Schedules, AsyncSchedules)),
    *((each.replace, ReplaceOptions) for each in (Schedules, AsyncSchedules)),
    *((each.create, Creation) for each in (SentSchedules, SentAsyncSchedules)),
    *((each.update, Change) for each in (SentSchedules, SentAsyncSchedules)),
    *((each.replace, Replacement) for each in (SentSchedules, SentAsyncSchedules)),
    (App("a").crons.using, CronOptions),
    (App("a").pool, PoolDeclaration),
    (App("a").scheduler.using, JobOptions),
    (App("a").workflows.using, RunOptions),
    (App("a").pools.set, PoolChanges),
    (App("a").tenants.set, TenantChanges),
    *((each.using, SentJobOptions) for each in (Scheduler, AsyncScheduler)),
    *((each.using, SentRunOptions) for each in (Workflows, AsyncWorkflows)),
    (Step.using, StepOptions),
    *((getattr(App, kind), FunctionOptions) for kind in ("query", "mutation", "action")),
    (App.workflow, WorkflowOptions),
]


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions, and the methods of the public classes and of what an app and a client have."""
    for module in map(import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield name, value
            elif inspect.isclass(value):
                yield from methods_of(name, value)
    app = App("a")
    for owner in (app, app.aio, Client("http://127.0.0.1:1"), AsyncClient("http://127.0.0.1:1")):
        for name in dir(owner):
            if not name.startswith("_"):
                yield from methods_of(name, getattr(owner, name))
    app.close()


def methods_of(name: str, value: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class or an object that are Evertick's own."""
    for method, member in inspect.getmembers(value, lambda each: inspect.isfunction(each) or inspect.ismethod(each)):
        if not method.startswith("_") and member.__module__.startswith("evertick"):
            yield f"{name}.{method}", member


NAMED_BY_USERS = {"DocumentQuery.with_index", "Step.set_attributes"}
"""Their keywords are names of the user's: fields of a table, attributes of a run."""


def is_pass_through(callable_: Callable[..., Any]) -> bool:
    """Whether `**kwargs` are arguments of a function of the user's, and not options."""
    return any(each.kind is each.VAR_POSITIONAL for each in inspect.signature(callable_).parameters.values())


def test_the_options_that_an_error_recognizes_are_those_of_jobs() -> None:
    """`run_after(5, f, retry=...)` says where options belong. The list is in a lower layer than the record."""
    assert {each.name for each in fields(JobOptions)} == OPTION_NAMES


def test_no_public_callable_hides_options() -> None:
    """A signature names every option; only arguments of a function of the user's are `*args` and `**kwargs`."""
    hidden = {
        name
        for name, each in public_callables()
        if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(each).parameters.values())
        and not is_pass_through(each)
    }

    assert hidden == NAMED_BY_USERS


@pytest.mark.parametrize(("function", "record"), RECORDS, ids=lambda each: getattr(each, "__qualname__", None))
def test_the_parameters_are_the_fields_of_the_record(function: Callable[..., Any], record: type) -> None:
    fields = inspect.signature(record).parameters
    shown = inspect.signature(function).parameters

    own = [name for name in shown if name not in fields]
    assert own in ([], ["self"], ["handler"], ["self", "handler"])
    assert {name: each.default for name, each in shown.items() if name in fields} == {
        name: each.default for name, each in fields.items()
    }


def test_overloads_of_decorators_list_the_fields_of_the_record() -> None:
    """Type checkers read the overloads, which cannot be taken from a record."""
    for kind, record in (("query", FunctionOptions), ("action", FunctionOptions), ("workflow", WorkflowOptions)):
        fields = inspect.signature(record).parameters
        shown = inspect.signature(get_overloads(getattr(Decorators, kind))[-1]).parameters
        assert {name: each.default for name, each in shown.items() if name != "self"} == {
            name: each.default for name, each in fields.items()
        }


def test_the_defaults_that_are_shown_are_those_that_apply() -> None:
    fields = inspect.signature(CreateOptions).parameters

    for name in ("overlap", "concurrency_limit", "catch_up", "pause_on_failure", "buffer_limit"):
        assert fields[name].default == getattr(DEFAULT_POLICIES, name)
    assert fields["catch_up_window"].default.total_seconds() * 1000 == DEFAULT_POLICIES.catch_up_window_ms
