"""Scripts of a tenant: drafts, versions, tests, runs and limits. Where the app runs no scripts, 404."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.api.scripts import (
    IsolationView,
    PublishedScript,
    ScriptPlanView,
    ScriptRunView,
    ScriptSummary,
    ScriptTestView,
    ScriptVersionSummary,
    ScriptVersionView,
    ScriptView,
)
from evertick.app.bodies import Body, Duration, Time
from evertick.app.scheduling.job_builder import Options, after
from evertick.base.ids import DEFAULT_TENANT, OWN_TENANT
from evertick.base.instants import SECOND_MS
from evertick.base.records.access import Scope
from evertick.server.bodies import Limit, Named, Scheduled
from evertick.server.callers import Called, Caller, Key, fleet_routes, reply, tenant_routes, version_of
from evertick.server.limits import take_longer
from evertick.server.problems import Problem
from evertick.server.routes.jobs import schedule_call

if TYPE_CHECKING:
    from evertick.app.scripts.api import AsyncScripts

Version = Annotated[int, Field(ge=1, le=1_000_000_000)]
routes = tenant_routes("scripts")
of_all = fleet_routes("scripts")


class Source(Body):
    """A source that is to be checked."""

    source: str
    language: str


class NewScript(Source):
    """A script; it runs when it is published."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "cart", "language": "javascript", "source": "export default async (ctx) => ctx.input"}
            ]
        }
    )

    name: str
    parameters: dict[str, Any] | None = Field(None, description="A JSON schema, by which the input of runs is checked.")
    note: str = ""


class ChangedScript(Body):
    """What changes of a draft; what is left out stays. `parameters` null removes the schema."""

    source: str | None = None
    language: str | None = None
    parameters: dict[str, Any] | None = None
    note: str | None = None


class Publication(Body):
    """Why a version is published; the note of the draft unless given."""

    note: str | None = None


class Rollback(Body):
    """Which version is to run."""

    version: Version


class Trial(Body):
    """A test of the draft, or of `source` in its place, or of a version."""

    input: Any = None
    source: str | None = None
    version: Version | None = None


class Start(Body):
    """A run of the published version, or of another one; at once, or `after` a while."""

    input: Any = None
    version: Version | None = None
    after: Duration | None = None


class PlanChange(Body):
    """Limits of a tenant (see `ScriptPlan`); null takes one back to the app's, and what is left out stays."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"cpu_ms": 5000, "hosts": ["a.example"]}]})


def _scripts_of(caller: Caller, tenant: str) -> "AsyncScripts":
    """Raises Problem where the app runs no scripts."""
    if not caller.app.uses_scripts:
        words = "the app of this server runs no scripts of customers; its code must use app.scripts"
        raise Problem(404, "no_scripts", words)
    return caller.app.tenant(tenant).scripts.audited_by(caller.audited).aio


async def _scripts(caller: Called) -> "AsyncScripts":
    return _scripts_of(caller, caller.tenant or DEFAULT_TENANT)


if TYPE_CHECKING:
    Scripts = Annotated[AsyncScripts, Depends(_scripts)]
else:  # the sandbox is imported where the app uses scripts
    Scripts = Annotated[Any, Depends(_scripts)]


@routes.at("GET", "/scripts", Scope.READ, returns=list[ScriptSummary])
async def list_scripts(
    scripts: Scripts, after: Annotated[str, Query(max_length=200)] = "", limit: Limit = 100
) -> Response:
    """Scripts by name, beyond the name `after`, without their sources."""
    return reply(await scripts.list(after=after, limit=limit))


@routes.at("POST", "/scripts", Scope.EDIT, returns=ScriptView, status=201)
async def create_script(scripts: Scripts, new: NewScript) -> Response:
    """Write a new script as a draft. Its syntax is checked, in the sandbox."""
    take_longer()
    made = await scripts.create(new.name, new.source, language=new.language, parameters=new.parameters, note=new.note)
    return reply(made, status=201, etag=made.revision)


@routes.at("POST", "/scripts/check", Scope.EDIT, status=204)
async def check_script(scripts: Scripts, given: Source) -> Response:
    """Check the syntax of a source. A mistake is a problem `invalid_script` with `line` and `column`."""
    await scripts.check(given.source, language=given.language)
    return Response(status_code=204)


@routes.at("GET", "/scripts/{name}", Scope.READ, returns=ScriptView)
async def get_script(scripts: Scripts, name: Named) -> Response:
    """A script with its draft. `ETag` is its revision."""
    found = await scripts.get(name)
    return reply(found, etag=found.revision)


@routes.at("PATCH", "/scripts/{name}", Scope.EDIT, returns=ScriptView)
async def edit_script(request: Request, scripts: Scripts, name: Named, to: ChangedScript) -> Response:
    """Change the draft of a script. With `If-Match`, only a script of that revision is changed."""
    take_longer()
    patch = to.model_dump(exclude_unset=True)
    changed = await scripts.edit(name, patch.pop("source", None), if_revision=version_of(request), **patch)
    return reply(changed, etag=changed.revision)


@routes.at("DELETE", "/scripts/{name}", Scope.EDIT, status=204)
async def delete_script(request: Request, scripts: Scripts, name: Named) -> Response:
    """Delete a script with its versions; refused while schedules run it or runs of it have not ended."""
    await scripts.delete(name, if_revision=version_of(request))
    return Response(status_code=204)


@routes.at("POST", "/scripts/{name}/test", Scope.EDIT, returns=ScriptTestView)
async def test_script(scripts: Scripts, name: Named, trial: Trial | None = None) -> Response:
    """Run a draft now and write nothing; returns what it did."""
    trial = trial or Trial()
    plan = await scripts.limits()
    take_longer(plan.limits["wall_ms"] / SECOND_MS)
    return reply(await scripts.test(name, trial.input, source=trial.source, version=trial.version))


@routes.at("POST", "/scripts/{name}/publish", Scope.EDIT, returns=PublishedScript)
async def publish_script(request: Request, scripts: Scripts, name: Named, how: Publication | None = None) -> Response:
    """Make the draft the version that runs. Publishing the same draft again changes nothing."""
    note = None if how is None else how.note
    return reply(await scripts.publish(name, note=note, if_revision=version_of(request)))


@routes.at("POST", "/scripts/{name}/rollback", Scope.OPERATE, returns=PublishedScript)
async def roll_back_script(request: Request, scripts: Scripts, name: Named, to: Rollback) -> Response:
    """Let an earlier version run again. The draft stays as it is."""
    return reply(await scripts.rollback(name, to.version, if_revision=version_of(request)))


@routes.at("POST", "/scripts/{name}/run", Scope.OPERATE, returns=Scheduled, status=201)
async def run_script(
    request: Request,
    caller: Called,
    scripts: Scripts,
    name: Named,
    how: Start | None = None,
    idempotency_key: Key = None,
) -> Response:
    """Run a script; returns the id of its job. An input needs the scope edit. With `Idempotency-Key` it runs once."""
    how = how or Start()
    if how.input is not None and not caller.may(Scope.EDIT):
        raise Problem(403, "not_allowed", "an input needs a token with the scope edit")
    call = await scripts.checked_call(name, how.input, version=how.version)
    now = caller.app.environment.job_builder.now()
    return await schedule_call(request, caller, call, after(how.after or 0, now), now, Options())


@routes.at("GET", "/scripts/{name}/versions", Scope.READ, returns=list[ScriptVersionSummary])
async def list_script_versions(
    scripts: Scripts, name: Named, before: Annotated[Version | None, Query()] = None, limit: Limit = 100
) -> Response:
    """The versions of a script, the newest first, without their sources."""
    return reply(await scripts.versions(name, before=before, limit=limit))


@routes.at("GET", "/scripts/{name}/versions/{version}", Scope.READ, returns=ScriptVersionView)
async def get_script_version(scripts: Scripts, name: Named, version: Version) -> Response:
    """A version of a script."""
    return reply(await scripts.version(name, version))


@routes.at("GET", "/script-runs", Scope.READ, returns=list[ScriptRunView])
async def list_script_runs(
    scripts: Scripts,
    script: Annotated[str | None, Query(max_length=200)] = None,
    before: Annotated[Time | None, Query()] = None,
    limit: Limit = 100,
) -> Response:
    """Attempts at runs of a script, or of all, that ended before a moment; the newest first."""
    return reply(await scripts.runs(script, before=before, limit=limit))


@routes.at("GET", "/script-runs/{job_id}", Scope.READ, returns=list[ScriptRunView])
async def get_script_run(scripts: Scripts, job_id: Named) -> Response:
    """The attempts at one run; none while the first one has not ended."""
    return reply(await scripts.run(job_id))


@routes.at("GET", "/script-limits", Scope.READ, returns=ScriptPlanView)
async def get_script_limits(scripts: Scripts) -> Response:
    """What the scripts of the tenant may use, and what they use."""
    return reply(await scripts.limits())


@of_all.at("PATCH", "/tenants/{name}/script-limits", Scope.ADMIN, returns=ScriptPlanView)
async def change_script_limits(caller: Called, name: Named, to: PlanChange) -> Response:
    """Change what the scripts of a tenant may use. This needs a token of all tenants."""
    scripts = _scripts_of(caller, DEFAULT_TENANT if name == OWN_TENANT else name)
    return reply(await scripts.set_plan(**(to.model_extra or {})))


@routes.at("GET", "/script-isolation", Scope.READ, returns=dict[str, IsolationView])
async def get_script_isolation(scripts: Scripts) -> Response:
    """How well each language is walled in where the server runs."""
    return reply(await scripts.isolation())
