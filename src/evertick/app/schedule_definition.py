"""Definitions: what a schedule is to do, checked and in the form in which it is kept."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, cast

from evertick.app.budget import check_args_size
from evertick.app.functions import Function, FunctionCall
from evertick.app.options import Retry
from evertick.app.ranges import Unset
from evertick.app.schedule_memo import check_user_memo
from evertick.app.schedule_reading import policy
from evertick.app.schedule_specs import When, bounded, union
from evertick.app.scheduling import Functions
from evertick.base.errors import InvalidArguments, LimitExceeded, Misuse
from evertick.base.ids import ScheduleId
from evertick.base.instants import duration_ms
from evertick.base.records import FunctionKind
from evertick.engine.schedule_target import Target
from evertick.rules.catch_up import window_ms
from evertick.rules.recurrence import Spec
from evertick.rules.recurrence.vocabulary import Excepted
from evertick.rules.recurrence.writing import canonical
from evertick.rules.schedule import BUFFER_MAX, CatchUp, Overlap, Policies

ID_CHARS_MAX: Final = 512
TEMPLATE_CHARS_MAX: Final = 1_000
RUN_NAME: Final = "{workflow_id}-{nominal}"
"""How a run is named unless a schedule says otherwise."""

Do = Function[..., Any] | FunctionCall | str
"""What a schedule does: a function without arguments, `fn.args(...)`, or a function by its name."""


class Defining(TypedDict, total=False):
    """What defines a schedule beside its times and its function."""

    start: datetime | None
    end: datetime | None
    jitter: timedelta | int | None
    except_: Excepted | Iterable[Excepted] | None
    overlap: Overlap | str
    concurrency_limit: int
    catch_up: CatchUp | str
    catch_up_window: float | timedelta | None
    pause_on_failure: bool
    buffer_limit: int
    memo: dict[str, Any] | None
    retry: Retry | None
    workflow_id: str | None
    run_id_template: str
    pool: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A checked definition."""

    spec: Spec
    target: Target
    policies: Policies
    run_id_template: str
    memo: dict[str, Any]

    def digest(self, *initial: Any) -> str:
        """The same text for the same definition, `initial` states included."""
        policies = [str(getattr(self.policies, name)) for name in Policies.__slots__]
        parts = [canonical(self.spec), self.target.to_text(), policies, self.run_id_template, self.memo, initial]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def define(
    functions: Functions,
    schedule_id: ScheduleId,
    when: When,
    do: Do,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    jitter: timedelta | int | None = None,
    except_: Excepted | Iterable[Excepted] | None = None,
    overlap: Overlap | str = Overlap.SKIP,
    concurrency_limit: int = 1,
    catch_up: CatchUp | str = CatchUp.ALL,
    catch_up_window: float | timedelta | None = None,
    pause_on_failure: bool = False,
    buffer_limit: int = BUFFER_MAX,
    memo: dict[str, Any] | None = None,
    retry: Retry | None = None,
    workflow_id: str | None = None,
    run_id_template: str = RUN_NAME,
    pool: str | None = None,
) -> Definition:
    """A definition, checked as far as it can be without the database. Raises Misuse and its kinds, FunctionNotFound."""
    return Definition(
        spec=bounded(union(when), start=start, end=end, jitter=jitter, except_=except_),
        target=target_of(functions, do, retry=retry, workflow_id=workflow_id, pool=pool),
        policies=Policies(
            overlap=policy(Overlap, overlap),
            concurrency_limit=concurrency_limit,
            catch_up=policy(CatchUp, catch_up),
            catch_up_window_ms=window_of(catch_up_window),
            pause_on_failure=pause_on_failure,
            buffer_limit=buffer_limit,
        ),
        run_id_template=template_of(run_id_template, workflow_id or schedule_id),
        memo=check_user_memo(memo),
    )


def schedule_id_of(text: str) -> ScheduleId:
    """An id that a schedule may have. Raises Misuse."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise Misuse(f"a schedule's id is printable text, not {text!r}")
    if len(text) > ID_CHARS_MAX:
        raise LimitExceeded(f"a schedule's id has at most {ID_CHARS_MAX} characters, not {len(text)}")
    return ScheduleId(text)


def target_of(
    functions: Functions,
    do: Do,
    *,
    retry: Retry | None = None,
    workflow_id: str | None = None,
    pool: str | None = None,
) -> Target:
    """What a schedule does. Raises FunctionNotFound, InvalidArguments, Misuse for a query, ArgumentsTooLarge."""
    call = do if isinstance(do, FunctionCall) else None
    function = functions.resolve(call.function if call is not None else cast("Function[..., Any] | str", do))
    if function.kind is FunctionKind.QUERY:
        raise Misuse(f"{function.name} is a query, which has no effect; schedule a mutation or an action")
    args = function.encode_args((), {}) if call is None else call.args
    check_args_size(len(args))
    return Target(
        name=function.name,
        kind=function.kind,
        args=args,
        retry=None if retry is None else retry.to_json(),
        workflow_id=workflow_id,
        pool=pool,
    )


def args_for(functions: Functions, target: Target, args: FunctionCall | dict[str, Any]) -> str:
    """Other arguments for one run of a target. Raises InvalidArguments, or Misuse if they are for another function."""
    function = functions.resolve(target.name)
    if isinstance(args, FunctionCall):
        if args.function is not function:
            raise Misuse(f"the schedule calls {target.name}, not {args.function.name}")
        text = args.args
    elif isinstance(args, dict):
        text = function.encode_args((), args)
    else:
        raise InvalidArguments(f"args= takes fn.args(...) or a dict of arguments by name, not {args!r}")
    check_args_size(len(text))
    return text


def window_of(window: float | timedelta | Unset | None) -> int:
    """A catch-up window in milliseconds; None and UNSET mean the default. Raises InvalidDelay."""
    return window_ms(
        None if window is None or isinstance(window, Unset) else duration_ms(window, name="catch_up_window")
    )


def template_of(template: str, stem: str) -> str:
    """The template of run names, with its stem filled in. Raises Misuse."""
    text = template.replace("{workflow_id}", stem)
    if not text.strip() or not text.isprintable():
        raise Misuse(f"a run's name is printable text, not {template!r}")
    if len(text) > TEMPLATE_CHARS_MAX:
        raise LimitExceeded(f"a template of run names has at most {TEMPLATE_CHARS_MAX} characters, not {len(text)}")
    return text
