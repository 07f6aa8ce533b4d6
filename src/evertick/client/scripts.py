"""`client.scripts`, as requests."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from evertick.api.scripts import (
    IsolationView,
    PublishedScript,
    ScriptLimits,
    ScriptPlanView,
    ScriptRunView,
    ScriptSummary,
    ScriptTestView,
    ScriptVersionSummary,
    ScriptVersionView,
    ScriptView,
)
from evertick.base.ids import JobId
from evertick.base.options import UNCHANGED, Unchanged
from evertick.client.calls import Call, Requests, given, json_value, new_id, new_key, nothing, part, read_as, sent


class ScriptRequests(Requests):
    """Requests about the scripts of the tenant at `home`."""

    @sent
    def create(
        self, name: str, source: str, *, language: str, parameters: Mapping[str, Any] | None = None, note: str = ""
    ) -> Call[ScriptView]:
        """Create a script as a draft; it runs only after it is published. See `app.scripts.create`."""
        body = {"name": name, "source": source, "language": language, "parameters": parameters, "note": note}
        return self._post(f"{self._home}/scripts", ScriptView, body)

    @sent
    def edit(
        self,
        name: str,
        source: str | None = None,
        *,
        language: str | None = None,
        parameters: Mapping[str, Any] | Unchanged | None = UNCHANGED,
        note: str | None = None,
        if_revision: int | None = None,
    ) -> Call[ScriptView]:
        """Change the draft of a script; arguments that are not given stay unchanged. See `app.scripts.edit`."""
        body = given({"source": source, "language": language, "note": note})
        if not isinstance(parameters, Unchanged):
            body["parameters"] = parameters
        read = ScriptView.model_validate
        return Call(method="PATCH", path=self._of(name), body=body, if_version=if_revision, read=read)

    @sent
    def check(self, source: str, *, language: str) -> Call[None]:
        """Raise InvalidScript, with line and column, if a source has a syntax error or is too large."""
        body = {"source": source, "language": language}
        return Call(method="POST", path=f"{self._home}/scripts/check", body=body, read=nothing)

    @sent
    def publish(self, name: str, *, note: str | None = None, if_revision: int | None = None) -> Call[PublishedScript]:
        """Make the draft the version that runs; see `app.scripts.publish`."""
        path, read = f"{self._of(name)}/publish", PublishedScript.model_validate
        return Call(method="POST", path=path, body={"note": note}, if_version=if_revision, read=read)

    @sent
    def rollback(self, name: str, version: int, *, if_revision: int | None = None) -> Call[PublishedScript]:
        """Run an earlier version again. The draft is not changed. Raises ScriptNotFound, VersionConflict."""
        path, read = f"{self._of(name)}/rollback", PublishedScript.model_validate
        return Call(method="POST", path=path, body={"version": version}, if_version=if_revision, read=read)

    @sent
    def delete(self, name: str, *, if_revision: int | None = None) -> Call[None]:
        """Delete a script with its versions. Raises ScriptNotFound, ScriptInUse, VersionConflict."""
        return Call(method="DELETE", path=self._of(name), if_version=if_revision, read=nothing)

    @sent
    def get(self, name: str) -> Call[ScriptView]:
        """A script with its draft. Raises ScriptNotFound."""
        return self._get(self._of(name), ScriptView)

    @sent
    def list(self, *, after: str = "", limit: int = 100) -> Call[Sequence[ScriptSummary]]:
        """Scripts by name, after the name `after`, without their sources; at most `limit`, up to 1,000."""
        return self._get(f"{self._home}/scripts", tuple[ScriptSummary, ...], {"after": after, "limit": limit})

    @sent
    def version(self, name: str, version: int) -> Call[ScriptVersionView]:
        """One version of a script. Raises ScriptNotFound."""
        return self._get(f"{self._of(name)}/versions/{version}", ScriptVersionView)

    @sent
    def versions(
        self, name: str, *, before: int | None = None, limit: int = 100
    ) -> Call[Sequence[ScriptVersionSummary]]:
        """The versions of a script below the number `before`, newest first. Raises ScriptNotFound."""
        query = given({"before": before, "limit": limit})
        return self._get(f"{self._of(name)}/versions", tuple[ScriptVersionSummary, ...], query)

    @sent
    def runs(
        self, name: str | None = None, *, before: datetime | None = None, limit: int = 100
    ) -> Call[Sequence[ScriptRunView]]:
        """Attempts at runs of a script, or of all scripts if `name` is None, that ended before a time; newest first."""
        query = given({"script": name, "before": before, "limit": limit})
        return self._get(f"{self._home}/script-runs", tuple[ScriptRunView, ...], query)

    @sent
    def run(self, job_id: str) -> Call[Sequence[ScriptRunView]]:
        """The attempts at one run; empty until the first one has ended."""
        return self._get(f"{self._home}/script-runs/{part(job_id)}", tuple[ScriptRunView, ...])

    @sent
    def start(self, name: str, input: Any = None, *, version: int | None = None, delay: float = 0) -> Call[JobId]:
        """Run a script once, `delay` seconds from now; returns the id of its job. See `app.scripts.start`."""
        value = json_value(input, f"the input of the script {name!r}")
        body = {"input": value, "version": version, "after": delay}
        return Call(method="POST", path=f"{self._of(name)}/run", body=body, key=new_key(), read=new_id)

    @sent
    def test(
        self, name: str, input: Any = None, *, source: str | None = None, version: int | None = None
    ) -> Call[ScriptTestView]:
        """Run the draft of a script (or `source`, or a version) on the server without writing anything.

        See `app.scripts.test`.
        """
        value = json_value(input, f"the input of the script {name!r}")
        body = {"input": value, **given({"source": source, "version": version})}
        return self._post(f"{self._of(name)}/test", ScriptTestView, body)

    @sent
    def limits(self) -> Call[ScriptPlanView]:
        """The limits of the tenant's scripts, and what they have used."""
        return self._get(f"{self._home}/script-limits", ScriptPlanView)

    @sent
    def set_plan(self, **limits: Unpack[ScriptLimits]) -> Call[ScriptPlanView]:
        """Change some limits of the tenant's scripts; this needs a token of all tenants. See `app.scripts.set_plan`."""
        path, read = f"{self._home}/script-limits", ScriptPlanView.model_validate
        return Call(method="PATCH", path=path, body=dict(limits), read=read)

    @sent
    def isolation(self) -> Call[dict[str, IsolationView]]:
        """How well each language is isolated on the server's machine."""
        path, read = f"{self._home}/script-isolation", read_as(dict[str, IsolationView])
        return Call(method="GET", path=path, read=read)

    def _of(self, name: str) -> str:
        return f"{self._home}/scripts/{part(name)}"
