"""What every command prints with `-o json`: the page `docs/reference/json.md`, from the schemas of `evertick.api`.

Run `python -m tools.json_forms` to write it again. Tests compare the page with the code, and what commands print with
the schemas; a new command needs its entry in `FORMS`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evertick.api.access import NewToken, TokenView
from evertick.api.commands import (
    BackupReport,
    CanceledJob,
    ChangedCount,
    CopyReport,
    CreatedSchedule,
    DeletedSchedule,
    FunctionCounts,
    MigrationReport,
    MovedJob,
    PlannedTime,
    RestartedRuns,
    RetriedJob,
    ScheduledCall,
    SentEvent,
    UpdatedSchedule,
    VersionReport,
)
from evertick.api.doctor import DoctorReport, FleetReport
from evertick.api.documents import DocumentView, TableView
from evertick.api.gateway_fleet import (
    FleetCron,
    GatewayCronLine,
    GatewayView,
    JoinToken,
    RemovedGateway,
    RemovedGatewayCron,
)
from evertick.api.gateways import GatewayCron, GatewayRun, StartedGatewayRun
from evertick.api.jobs import AttemptView, JobLogLine, JobView, LogLineView
from evertick.api.limits import PoolView, TenantView
from evertick.api.reports import AuditReport, Explanation, PreviewedTime, TimePreview
from evertick.api.schedules import (
    ApplyReport,
    BackfillView,
    HistoryLine,
    OccurrenceView,
    PlannedBackfill,
    ScheduleDescription,
    ScheduleSummary,
)
from evertick.api.scripts import (
    DeletedScript,
    PublishedScript,
    ScriptPlanView,
    ScriptRunLine,
    ScriptRunView,
    ScriptSummary,
    ScriptTestView,
    ScriptVersionSummary,
    ScriptVersionView,
    ScriptView,
)
from evertick.api.status import StatusView, WorkerView
from evertick.api.workflows import (
    DetailedRun,
    RunDetails,
    RunEvent,
    RunHistory,
    RunView,
    WithdrawnEvent,
    WorkflowTypeView,
)

PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "json.md"
HEAD: Final = """\
# JSON of every command

What each command prints with `-o json`. The names and types of fields do not change within a major release; fields may
be added. Every field that is listed is always there, unless it says *may be missing*. Times are RFC 3339 in UTC,
durations that end in `_ms` are whole milliseconds. A command prints the same on a database and against a server.

"A list" is one array; with `-o jsonl` each of its elements is a line. `--fields` keeps some of the fields. Commands
that are not listed print text alone.
"""


@dataclass(frozen=True, slots=True)
class Form:
    """What a command prints: one value of `schema`, or a list of them; `when` says with which options."""

    schema: Any
    many: bool = False
    when: str = ""


def _one(schema: Any, when: str = "") -> Form:
    return Form(schema, when=when)


def _many(schema: Any, when: str = "") -> Form:
    return Form(schema, many=True, when=when)


_TRIGGERED: Final = (_one(OccurrenceView),)
_BACKFILL: Final = (_one(BackfillView),)
_SUMMARY: Final = (_one(ScheduleSummary),)
_DESCRIBED: Final = (_one(ScheduleDescription),)
FORMS: Final[Mapping[str, tuple[Form, ...]]] = {
    "run": (_one(ScheduledCall, "with `--after` or `--at`"),),
    "job list": (_many(JobView),),
    "job get": (_one(JobView), _many(JobView, "of several ids")),
    "job cancel": (_many(CanceledJob),),
    "job stop": (_many(CanceledJob),),
    "job cancel-all": (_one(ChangedCount),),
    "job retry": (_many(RetriedJob),),
    "job run-now": (_many(MovedJob),),
    "job reschedule": (_many(MovedJob),),
    "job attempts": (_many(AttemptView),),
    "job logs": (_many(JobLogLine),),
    "job counts": (_many(FunctionCounts),),
    "schedule create": (_one(CreatedSchedule),),
    "schedule list": (_many(ScheduleSummary),),
    "schedule describe": _DESCRIBED,
    "schedule get": _DESCRIBED,
    "schedule update": (_one(UpdatedSchedule),),
    "schedule edit": (_one(UpdatedSchedule),),
    "schedule toggle": _SUMMARY,
    "schedule pause": (*_SUMMARY, _one(ChangedCount, "with `--query`")),
    "schedule resume": (*_SUMMARY, _one(ChangedCount, "with `--query`")),
    "schedule delete": (_one(DeletedSchedule), _one(ChangedCount, "with `--query`")),
    "schedule trigger": _TRIGGERED,
    "schedule backfill": (
        *_BACKFILL,
        _many(PlannedTime, "with `--dry-run`"),
        _many(PlannedBackfill, "with `--query`"),
    ),
    "schedule apply": (_one(ApplyReport),),
    "schedule preview": (_one(TimePreview), _many(PreviewedTime, "with `-o jsonl`, a line each")),
    "schedule explain": (_one(Explanation),),
    "schedule audit": (_one(AuditReport),),
    "schedule occurrences": (_many(OccurrenceView),),
    "schedule history": (_many(HistoryLine),),
    "backfill list": (_many(BackfillView),),
    "backfill get": _BACKFILL,
    "backfill watch": _BACKFILL,
    "backfill stop": _BACKFILL,
    "cron list": (_many(ScheduleSummary),),
    "cron get": _DESCRIBED,
    "cron trigger": _TRIGGERED,
    "cron pause": _SUMMARY,
    "cron resume": _SUMMARY,
    "logs": (_many(LogLineView),),
    "workflow list": (_many(DetailedRun),),
    "workflow start": (_one(RunDetails),),
    "workflow get": (_one(RunDetails),),
    "workflow children": (_many(RunView),),
    "workflow wait": (_one(RunDetails),),
    "workflow signal": (_one(SentEvent),),
    "workflow withdraw": (_one(WithdrawnEvent),),
    "workflow cancel": (_many(RunDetails),),
    "workflow terminate": (_many(RunDetails),),
    "workflow pause": (_many(RunDetails),),
    "workflow resume": (_many(RunDetails),),
    "workflow restart": (
        _one(RunDetails),
        _many(RunView, "of several ids"),
        _one(RestartedRuns, "where filters choose"),
    ),
    "workflow type list": (_many(WorkflowTypeView),),
    "workflow type get": (_one(WorkflowTypeView),),
    "workflow type pause": (_one(WorkflowTypeView),),
    "workflow type resume": (_one(WorkflowTypeView),),
    "workflow type deprecate": (_one(WorkflowTypeView),),
    "workflow type delete": (_one(WorkflowTypeView),),
    "workflow history": (_one(RunHistory), _many(RunEvent, "with `-o jsonl`, a line each")),
    "script list": (_many(ScriptSummary),),
    "script create": (_one(ScriptView),),
    "script edit": (_one(ScriptView),),
    "script test": (_one(ScriptTestView),),
    "script publish": (_one(PublishedScript),),
    "script rollback": (_one(PublishedScript),),
    "script run": (_one(ScheduledCall),),
    "script get": (_one(ScriptView), _one(ScriptVersionView, "with `--version`")),
    "script versions": (_many(ScriptVersionSummary),),
    "script runs": (_many(ScriptRunView),),
    "script logs": (_many(ScriptRunLine),),
    "script limits": (_one(ScriptPlanView),),
    "script delete": (_one(DeletedScript),),
    "data tables": (_many(TableView),),
    "data list": (_many(DocumentView),),
    "data get": (_one(DocumentView),),
    "tenant list": (_many(TenantView),),
    "tenant get": (_one(TenantView),),
    "tenant set": (_one(TenantView),),
    "pool list": (_many(PoolView),),
    "pool get": (_one(PoolView),),
    "pool set": (_one(PoolView),),
    "pool pause": (_one(PoolView),),
    "pool resume": (_one(PoolView),),
    "pool delete": (_one(PoolView),),
    "worker list": (_many(WorkerView),),
    "token create": (_one(NewToken),),
    "token list": (_many(TokenView),),
    "token revoke": (_one(TokenView),),
    "token rotate": (_one(NewToken),),
    "status": (_one(StatusView),),
    "doctor": (_one(DoctorReport), _one(FleetReport, "with `--fleet`, or against a server")),
    "backup": (_one(BackupReport),),
    "copy": (_one(CopyReport),),
    "migrate": (_one(MigrationReport),),
    "version": (_one(VersionReport),),
}
"""Commands by their words, in the order of `--help`."""
OF_GATEWAYS: Final[dict[str, tuple[Form, ...]]] = {
    "gateway list": (_many(GatewayView),),
    "gateway get": (_one(GatewayView),),
    "gateway join-token": (_one(JoinToken),),
    "gateway rotate": (_one(GatewayView),),
    "gateway remove": (_one(RemovedGateway),),
    "gateway cron list": (_many(GatewayCronLine),),
    "gateway cron get": (_one(FleetCron),),
    "gateway cron add": (_one(GatewayCron),),
    "gateway cron update": (_one(GatewayCron),),
    "gateway cron run": (_one(StartedGatewayRun),),
    "gateway cron runs": (_many(GatewayRun),),
    "gateway cron remove": (_one(RemovedGatewayCron),),
}
"""Commands that need a gateway which runs: their forms are tested with one."""
ALL: Final = {**FORMS, **OF_GATEWAYS}
ELSEWHERE: Final = {
    "gateway check": "a list of checks: `check`, `result` (`passed`, `failed` or `left out`) and `detail`, all text",
    "run": "without `--after` and `--at`: what the function returns",
    "schedule export": "a [file of schedules](../guide/command-line.md#files-of-schedules)",
    "api": "the reply of the [HTTP API](../guide/http-api.md), which `/openapi.json` describes",
}
"""Commands whose JSON is described elsewhere."""


def schema_of(form: Form) -> dict[str, Any]:
    """The JSON Schema of one value of a form."""
    found: dict[str, Any] = form.schema.model_json_schema(mode="serialization", by_alias=True)
    return found


def page() -> str:
    """The page as it should be."""
    rows = [
        f"| `{command}` | {_printed(command)} |" for command in [*ALL, *(each for each in ELSEWHERE if each not in ALL)]
    ]
    parts = [HEAD, "\n".join(["| command | prints |", "|---|---|", *rows])]
    for name, schema in sorted(_definitions().items()):
        parts.append("\n".join(_described(name, schema)))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _printed(command: str) -> str:
    """What a command prints, in a few words."""
    words = []
    for form in ALL.get(command, ()):
        name = form.schema.__name__
        what = f"{'a list of ' if form.many else ''}[{name}](#{name.lower()})"
        words.append(f"{form.when}: {what}" if form.when else what)
    return "; ".join([*words, *([ELSEWHERE[command]] if command in ELSEWHERE else [])])


def _definitions() -> dict[str, dict[str, Any]]:
    """The schemas of all forms and of what they hold, by name."""
    found: dict[str, dict[str, Any]] = {}
    for forms in ALL.values():
        for form in forms:
            schema = schema_of(form)
            for name, each in {**schema.pop("$defs", {}), form.schema.__name__: schema}.items():
                if found.setdefault(name, each) != each:
                    raise ValueError(f"two schemas are called {name}")
    return found


def _described(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """A schema as Markdown: a heading, what it is, and its fields or words."""
    yield f"## {name}\n"
    text = schema.get("description", "").partition("\n\nArgs:")[0]
    if text:
        yield f"{text}\n"
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{word}`" for word in schema["enum"]) + "."
        return
    yield "| field | type |"
    yield "|---|---|"
    required = schema.get("required", ())
    for field, value in schema.get("properties", {}).items():
        missing = "" if field in required else ", *may be missing*"
        yield f"| `{field}` | {_type(value)}{missing} |"


def _type(value: Mapping[str, Any]) -> str:
    """A type in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(map(_type, value["anyOf"])))
    kind = value.get("type")
    if kind == "array":
        return "list" if not value.get("items") else f"list of {_type(value['items'])}"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"object, each value {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    if value.get("format") == "date-time":
        return "time"
    return "any" if kind is None else re.sub("^boolean$", "true or false", kind)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
