"""Host functions: the functions that a script can call as `ctx.…`, including the developer's own.

Each function acts for the tenant of its run; no argument can change that. Writes are staged; see `staging.py`.
"""

import http.client
import inspect
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from evertick.app.documents.database import Database
from evertick.app.documents.queries import Document, DocumentQuery
from evertick.app.documents.tables import Table, check_name, table_named_in
from evertick.app.execution.contexts import MutationCtx, QueryCtx, run_in_frame, run_reading
from evertick.app.execution.runner import Execution
from evertick.app.functions.function import Action, Function, Mutation, Query
from evertick.app.functions.options import ApplicationError
from evertick.app.run.run import Run
from evertick.app.scripts.staging import Staging, as_host_error, plain
from evertick.base.errors import Conflict, EvertickError, RegistrationError, Unavailable
from evertick.base.instants import HORIZON_MS, SECOND_MS, from_datetime
from evertick.base.options import text
from evertick.base.outgoing import OWN_HEADERS, REDIRECTS, Refused, checked, exchange
from evertick.recurrence.zones.names import zone_named
from evertick.sandbox.protocol import (
    HostCall,
    HostError,
    HostFunction,
    Json,
    Kind,
    Outcome,
    Parameter,
    StopRun,
)
from evertick.store.transaction.unit_of_work import FunctionUnit

# -- `ctx.fetch`: HTTP for scripts, to the hosts in their tenant's plan (`evertick.base.outgoing`).
#
# Redirects are followed only to hosts in the plan.

TIME_S: Final = 5.0
REDIRECTS_MAX: Final = 3
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def fetch(hosts: tuple[str, ...], call: HostCall, url: str, options: Any) -> Json:
    """Make a request; returns `{status, headers, body}`, whatever the status. Raises HostError."""
    method, headers, body = _request(options or {})
    deadline = time.monotonic() + min(TIME_S, call.remaining_ms() / 1_000)
    for _ in range(REDIRECTS_MAX + 1):
        try:
            parts = checked(url, hosts, "scripts")
            status, found, data = exchange(parts, method, headers, body, deadline)
        except Refused as error:
            raise HostError(str(error), error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            host = urlsplit(url).hostname
            raise HostError(f"{host} could not be reached: {type(error).__name__}", "fetch_failed") from error
        location = found.get("location")
        if status not in REDIRECTS or location is None:
            text = data.decode("utf-8", "replace")
            return {"status": status, "headers": found, "body": text, "ok": 200 <= status < 300}
        url = urljoin(url, location)
        if status == 303 or (status in (301, 302) and method == "POST"):
            method, body = "GET", None
        if urlsplit(url).netloc != parts.netloc:
            headers = {name: value for name, value in headers.items() if name not in ("authorization", "cookie")}
    raise HostError(f"more than {REDIRECTS_MAX} redirects", "fetch_failed")


def _request(options: dict[str, Any]) -> tuple[str, dict[str, str], bytes | None]:
    if options.keys() - {"method", "headers", "body"}:
        raise HostError("fetch() takes the options method, headers and body", "invalid_argument")
    method, headers, body = options.get("method", "GET"), options.get("headers") or {}, options.get("body")
    if method not in METHODS:
        raise HostError(f"method must be one of {', '.join(METHODS)}", "invalid_argument")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise HostError("headers must be an object of strings", "invalid_argument")
    chosen = {name.lower(): value for name, value in headers.items()}
    if refused := sorted(chosen.keys() & OWN_HEADERS):
        raise HostError(f"a script cannot set the header {refused[0]}", "invalid_argument")
    if body is not None and not isinstance(body, str):
        chosen.setdefault("content-type", "application/json")
        body = json.dumps(body)
    return method, chosen, None if body is None else body.encode()


ROWS_MAX: Final = 1_000
"""Documents that one query returns."""
KEY: Final = text(512)
CHANNEL_BYTES: Final = 200
NOTICE_BYTES: Final = 8 << 10
OWN_NAMES: Final = frozenset({"db", "kv", "run", "tenant", "input", "time", "schedule", "notify", "log", "fetch"})
"""First words of names in `ctx` that the developer's functions cannot have."""
NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,62}(\.[a-zA-Z][a-zA-Z0-9_]{0,62}){0,2}")
KINDS: Final[Mapping[Any, Kind]] = {
    str: Kind.TEXT, int: Kind.INTEGER, float: Kind.NUMBER, bool: Kind.BOOLEAN, list: Kind.LIST, dict: Kind.OBJECT,
}  # fmt: skip
CONTEXTS: Final[Mapping[str, type[Function[..., Any]]]] = {
    "QueryCtx": Query, "MutationCtx": Mutation, "ActionCtx": Action, "SyncActionCtx": Action,
}  # fmt: skip
COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "lt": lambda value, bound: value < bound,
    "lte": lambda value, bound: value <= bound,
    "gt": lambda value, bound: value > bound,
    "gte": lambda value, bound: value >= bound,
}
TOKENS: Final = re.compile("YYYY|MM|DD|HH|mm|ss")


@dataclass(frozen=True, slots=True)
class DeveloperFunction:
    """A function of the developer that scripts may call. `in_tests`: whether tests of scripts call it if it acts."""

    function: Function[..., Any]
    parameters: tuple[Parameter, ...]
    in_tests: bool


def developer_function(name: str | None, handler: Callable[..., Any], in_tests: bool, app: str) -> DeveloperFunction:
    """The function that `@app.scripts.host` registers. Raises RegistrationError."""
    own = name or str(getattr(handler, "__name__", ""))
    if not NAME.fullmatch(own) or own.partition(".")[0] in OWN_NAMES:
        raise RegistrationError(
            f"{own!r} cannot be the name of a function of scripts: use up to three words of letters, digits and _, "
            f"separated by dots; the first must not be one of {', '.join(sorted(OWN_NAMES))}"
        )
    first, *others = inspect.signature(handler).parameters.values() or [None]
    annotation = getattr(first, "annotation", None)
    context = annotation.rpartition(".")[2] if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    kind = CONTEXTS.get(context)
    if kind is None:
        raise RegistrationError(
            f"{own}: the first parameter must be a context: QueryCtx reads immediately, MutationCtx runs in the "
            "transaction that ends the run, ActionCtx or SyncActionCtx runs immediately"
        )
    function = kind(handler, name=f"ctx.{own}", internal=True, timeout_ms=None, app_name=app)
    if function.is_async is not (context == "ActionCtx"):
        raise RegistrationError(f"{own}: an `async def` must take an ActionCtx; a plain `def` must take another")
    function.check()
    hints = inspect.get_annotations(handler, eval_str=True)
    parameters = tuple(_parameter(each, hints.get(each.name)) for each in others if each is not None)
    return DeveloperFunction(function, parameters, in_tests)


def _parameter(parameter: inspect.Parameter, hint: Any) -> Parameter:
    if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
        raise RegistrationError(f"the parameter {parameter.name} of a function of scripts must be a plain one")
    kind = KINDS.get(getattr(hint, "__origin__", hint), Kind.JSON)
    return Parameter(parameter.name, kind, required=parameter.default is parameter.empty)


class HostFunctions:
    """The host functions of one try of a run."""

    def __init__(
        self,
        staging: Staging,
        execution: Execution,
        *,
        tables: Mapping[str, bool],
        own: Mapping[str, DeveloperFunction],
        on_notify: Action[..., Any] | None,
        hosts: tuple[str, ...],
        script_function: Action[..., Any],
        is_test: bool,
    ) -> None:
        self._staging = staging
        self._execution = execution
        self._tables = tables
        self._own = own
        self._on_notify = on_notify
        self._hosts = hosts
        self._script_function = script_function
        self._is_test = is_test

    def by_name(self) -> dict[str, HostFunction]:
        """The functions that the sandbox provides to the script."""
        named, optional = Parameter, partial(Parameter, required=False)
        zone = optional("zone", Kind.TEXT, max_bytes=100)
        key = named("key", Kind.TEXT, max_bytes=2_048)
        table, document_id = named("table", Kind.TEXT, max_bytes=64), named("id", Kind.TEXT, max_bytes=100)
        found: dict[str, HostFunction] = {
            "kv.get": HostFunction(self._kv_get, (key,)),
            "kv.set": HostFunction(self._kv_set, (key, named("value"))),
            "kv.delete": HostFunction(self._kv_delete, (key,)),
            "time.format": HostFunction(
                _format, (named("time", Kind.NUMBER), zone, optional("pattern", Kind.TEXT, max_bytes=100)), False
            ),
            "time.parts": HostFunction(_parts, (named("time", Kind.NUMBER), zone), awaited=False),
            "schedule": HostFunction(self._schedule, (named("options", Kind.OBJECT),)),
        }
        if self._tables:
            fields = named("fields", Kind.OBJECT)
            found |= {
                "db.get": HostFunction(self._get, (document_id,)),
                "db.query": HostFunction(
                    self._query, (table, optional("where", Kind.OBJECT), optional("options", Kind.OBJECT))
                ),
                "db.insert": HostFunction(self._insert, (table, fields)),
                "db.update": HostFunction(self._update, (document_id, fields)),
                "db.delete": HostFunction(self._delete, (document_id,)),
            }
        if self._on_notify is not None:
            words = (
                named("channel", Kind.TEXT, max_bytes=CHANNEL_BYTES),
                named("text", Kind.TEXT, max_bytes=NOTICE_BYTES),
            )
            found["notify"] = HostFunction(self._notify, words)
        if self._hosts:
            found["fetch"] = HostFunction(
                partial(fetch, self._hosts),
                (named("url", Kind.TEXT, max_bytes=8_192), optional("options", Kind.OBJECT)),
            )
        for name, each in self._own.items():
            found[name] = HostFunction(partial(self._call_own, each), each.parameters)
        return {name: function._replace(call=partial(_converting, function.call)) for name, function in found.items()}

    # -- documents

    def _db(self) -> Database:
        return Database(self._staging.run, self._staging.environment.tables, self._staging.environment.ids)

    def _check_table(self, table: str | None, *, writing: bool = False) -> None:
        if table is None:
            raise HostError("the argument is not an id of a document", "table_not_found")
        if table not in self._tables:
            words = ", ".join(sorted(self._tables))
            raise HostError(f"no table {table!r}; scripts can use: {words}", "table_not_found")
        if writing and not self._tables[table]:
            raise HostError(f"scripts must not write the table {table!r}", "not_allowed")

    def _get(self, call: HostCall, document_id: str) -> Json:
        self._check_table(table_named_in(document_id))
        return self._staging.read(lambda _: plain(self._db().get(document_id)))

    def _query(self, call: HostCall, table: str, where: Any, options: Any) -> Json:
        self._check_table(table)
        wanted, equal = _filter(where or {})
        order, descending, limit = _options(options or {})
        declared = self._staging.environment.tables.get(table)

        def work(_: Any) -> list[Document]:
            query: DocumentQuery = _through_index(self._db().query(table), declared, equal, order).filter(wanted)
            if order in (None, "_creation_time"):
                return query.order("desc" if descending else "asc").take(limit)
            return sorted(query, key=lambda each: _sort_key(each.get(order)), reverse=descending)[:limit]

        return plain(self._staging.read(work))

    def _insert(self, call: HostCall, table: str, fields: dict[str, Any]) -> Json:
        self._check_table(table, writing=True)
        return self._db().insert(table, fields)

    def _update(self, call: HostCall, document_id: str, fields: dict[str, Any]) -> None:
        self._check_table(table_named_in(document_id), writing=True)
        self._staging.read(lambda _: self._db().patch(document_id, fields))

    def _delete(self, call: HostCall, document_id: str) -> None:
        self._check_table(table_named_in(document_id), writing=True)
        self._staging.read(lambda _: self._db().delete(document_id))

    # -- values

    def _kv_get(self, call: HostCall, key: str) -> Json:
        found = self._staging.value(_key(key))
        return None if found is None else json.loads(found)

    def _kv_set(self, call: HostCall, key: str, value: Json) -> None:
        self._staging.put_value(_key(key), json.dumps(value, allow_nan=False), call.place)

    def _kv_delete(self, call: HostCall, key: str) -> None:
        self._staging.put_value(_key(key), None, call.place)

    # -- effects after the run

    def _schedule(self, call: HostCall, options: dict[str, Any]) -> None:
        name, after, at = options.get("script"), options.get("in"), options.get("at")
        unknown = options.keys() - {"at", "in", "script", "input"}
        has_one = ("at" in options) != ("in" in options) and (at is None) != (after is None)
        if unknown or not has_one or not isinstance(name, str):
            raise HostError("schedule() takes {script, input} and either `in` (seconds) or `at`", "invalid_argument")
        if self._staging.read(lambda transaction: transaction.get_script(name, tenant=self._staging.tenant)) is None:
            raise HostError(f"no script {name!r}", "script_not_found")
        if after is not None and (not _is_number(after) or not 0 <= after <= HORIZON_MS / SECOND_MS):
            raise HostError("`in` must be a number of seconds, from 0 to five years", "invalid_argument")
        moment = None if at is None else _moment(at)
        if moment is not None and abs(from_datetime(moment) - self._staging.run.now) > HORIZON_MS:
            raise HostError(f"`at` must be within five years from now, not {moment.isoformat()}", "invalid_argument")
        later = self._script_function.with_args(script=name, input=options.get("input"))

        def effect(ctx: MutationCtx) -> None:
            if moment is None:
                ctx.scheduler.run_after_many(after or 0, [later])
            else:
                ctx.scheduler.run_at_many(moment, [later])

        self._staging.add("schedule", effect, call.place)

    def _notify(self, call: HostCall, channel: str, words: str) -> None:
        assert self._on_notify is not None  # noqa: S101
        notice = self._on_notify.with_args(channel, words)
        self._staging.add("notify", lambda ctx: ctx.scheduler.run_after_many(0, [notice]), call.place)

    # -- the developer's own

    def _call_own(self, own: DeveloperFunction, call: HostCall, *given: Json) -> Json:
        function, staging, execution = own.function, self._staging, self._execution
        arguments = list(given)
        while arguments and arguments[-1] is None and not own.parameters[len(arguments) - 1].required:
            arguments.pop()  # left out, so the function's default applies
        names = [each.name for each in own.parameters]
        args, kwargs = function.checked_args((), dict(zip(names, arguments, strict=False)))
        if isinstance(function, Mutation):
            mutation = function

            def effect(ctx: MutationCtx) -> None:
                execution._in_time(mutation, lambda: run_in_frame(mutation, ctx, args, kwargs))

            staging.add(call.name, effect, call.place)
            return None
        if isinstance(function, Query):
            query = function

            def work(_: Any) -> Any:
                run = replace(staging.run, unit=FunctionUnit(staging.run.unit.unit))
                ctx = QueryCtx(staging.environment, run)
                return execution._in_time(query, lambda: run_reading(query, ctx, args, kwargs))

            result = staging.read(work)
        elif self._is_test and not own.in_tests:
            return None
        else:
            e = staging.environment
            run = Run(
                clock=e.clock, name=function.name, tenant=staging.tenant, now=e.clock.now(),
                origin_id=staging.run.job_id, attempt=staging.run.attempt, schedule=staging.run.schedule,
            )  # fmt: skip
            result = execution.call_now(function, args, kwargs, run)
        encoded: Json = json.loads(function.encode_result(result))
        return encoded


def _converting(call: Callable[..., Json], host_call: HostCall, *arguments: Json) -> Json:
    """Call a function, and convert Evertick's errors to errors of the script, which it may catch."""
    try:
        return call(host_call, *arguments)
    except (Unavailable, Conflict) as error:
        raise StopRun(Outcome.INTERNAL, None, f"{host_call.name}: {error}") from error
    except EvertickError as error:
        raise as_host_error(error) from error
    except ApplicationError as error:
        code = error.data.get("code") if isinstance(error.data, dict) else None
        raise HostError(str(error), code if isinstance(code, str) else "application_error") from error


# -- filters of documents


def _filter(where: Mapping[str, Any]) -> tuple[Callable[[Document], bool], dict[str, Any]]:
    """A predicate for documents, and the fields that must equal one value."""
    tests: list[tuple[str, Callable[[Any], bool]]] = []
    equal: dict[str, Any] = {}
    for field, wanted in where.items():
        if not isinstance(wanted, dict):
            equal[field] = wanted
            tests.append((field, partial(_equals, wanted)))
            continue
        if not wanted:
            raise HostError(f"the filter of {field!r} is empty; omit the field to match all", "invalid_argument")
        for word, bound in wanted.items():
            if word == "in" and isinstance(bound, list) and len(bound) <= ROWS_MAX:
                tests.append((field, partial(_is_among, bound)))
            elif word in COMPARED and (_is_number(bound) or isinstance(bound, str)):
                tests.append((field, partial(_compares, COMPARED[word], bound)))
            else:
                known = f"{', '.join(COMPARED)} with a number or a text, or in with a list"
                raise HostError(f"the filter of {field!r} has {word!r}; it takes {known}", "invalid_argument")
    return lambda document: all(test(_json_value(document.get(field))) for field, test in tests), equal


def _json_value(value: Any) -> Json:
    """A document's value as the script sees it."""
    return value if value is None or isinstance(value, str | int | float | list | dict) else plain(value)


def _equals(wanted: Json, value: Json) -> bool:
    return bool(value == wanted) and isinstance(value, bool) is isinstance(wanted, bool)


def _is_among(options: list[Json], value: Json) -> bool:
    return any(_equals(each, value) for each in options)


def _compares(holds: Callable[[Any, Any], bool], bound: Any, value: Any) -> bool:
    if isinstance(bound, str):
        return isinstance(value, str) and holds(value, bound)
    return _is_number(value) and holds(value, bound)


def _options(options: Mapping[str, Any]) -> tuple[str | None, bool, int]:
    """The field to order by, whether it is descending, and the maximum number of documents."""
    limit, order = options.get("limit", ROWS_MAX), options.get("order")
    if unknown := sorted(options.keys() - {"limit", "order"}):
        raise HostError(f"a query has no option {unknown[0]!r}; it has limit and order", "invalid_argument")
    if isinstance(limit, bool) or not _is_number(limit) or limit != int(limit) or not 1 <= limit <= ROWS_MAX:
        raise HostError(f"limit must be a whole number from 1 to {ROWS_MAX:,}", "invalid_argument")
    if order is not None and not isinstance(order, str):
        raise HostError('order must be the name of a field, or "-name" for the largest first', "invalid_argument")
    field = None if order is None else order.removeprefix("-")
    return field, order is not None and order.startswith("-"), int(limit)


def _through_index(
    query: DocumentQuery, table: Table | None, equal: dict[str, Any], order: str | None
) -> DocumentQuery:
    """The query through the index that narrows it most. Without an order, documents come in the order of creation, so
    an index can be used only if all its fields are given.
    """
    best: tuple[str, ...] = ()
    chosen = ""
    for name, index in ({} if table is None else table.indexes).items():
        given = [
            field for field in index.fields if isinstance(equal.get(field), str | int | float) and "." not in field
        ]
        leading = index.fields[: len(given)]
        if tuple(given) == leading and len(leading) > len(best) and (order or len(leading) == len(index.fields)):
            best, chosen = leading, name
    return query.with_index(chosen, **{field: equal[field] for field in best}) if best else query


def _sort_key(value: Any) -> tuple[int, Any]:
    """Sort key: null first, then numbers, then strings, then other values."""
    value = _json_value(value)
    if value is None:
        return 0, 0
    if _is_number(value):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, json.dumps(value, sort_keys=True))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(key: str) -> str:
    if not KEY.fits(key):
        raise HostError(f"a key must be {KEY.words}", "invalid_argument")
    return key


# -- times


def _moment(at: Any) -> datetime:
    """The time in an argument of a script: milliseconds since 1970, or text with a zone."""
    try:
        found = datetime.fromisoformat(at) if isinstance(at, str) else _local(at, None)
    except ValueError:
        found = datetime(1970, 1, 1)  # noqa: DTZ001 - refused below, like all times without a zone
    if found.tzinfo is None:
        raise HostError(
            "`at` must be a number of milliseconds since 1970, or text such as 2026-11-27T09:00:00+01:00",
            "invalid_argument",
        )
    return found


def _local(time: Any, zone: str | None) -> datetime:
    if not _is_number(time) or not math.isfinite(time) or abs(time) > 60_000_000_000_000:
        raise HostError("a time must be a number of milliseconds since 1970", "invalid_argument")
    offset = zone_named(zone or "UTC").offset_at(int(time // 1_000))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (epoch + timedelta(milliseconds=time)).astimezone(timezone(timedelta(seconds=offset)))


def _format(call: HostCall, time: float, zone: str | None, pattern: str | None) -> str:
    local = _local(time, zone)
    if pattern is None:
        return local.isoformat(timespec="seconds")
    values = {
        "YYYY": f"{local.year:04}", "MM": f"{local.month:02}", "DD": f"{local.day:02}",
        "HH": f"{local.hour:02}", "mm": f"{local.minute:02}", "ss": f"{local.second:02}",
    }  # fmt: skip
    return TOKENS.sub(lambda found: values[found.group()], pattern)


def _parts(call: HostCall, time: float, zone: str | None) -> dict[str, int]:
    local = _local(time, zone)
    offset = local.utcoffset() or timedelta()
    return {
        "year": local.year, "month": local.month, "day": local.day, "hour": local.hour, "minute": local.minute,
        "second": local.second, "weekday": local.isoweekday(), "offset": int(offset.total_seconds()),
    }  # fmt: skip


def check_tables(names: tuple[str, ...], write: tuple[str, ...]) -> dict[str, bool]:
    """The tables of scripts, with whether scripts may write each. Raises RegistrationError."""
    for name in (*names, *write):
        check_name(name)
    return {name: name in write for name in (*names, *write)}
