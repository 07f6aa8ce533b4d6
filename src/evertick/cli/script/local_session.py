"""The scripts of a database as commands work on them, with the app that runs them or without it.

Without it a script has the plan that holds where the app's code says nothing, and no tables or functions of the app.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evertick.api.jobs import JobLogs
from evertick.app.app import App
from evertick.app.functions_by_name import app_of_scripts
from evertick.app.scripts.api import TenantScripts
from evertick.base.errors import Misuse
from evertick.base.ids import JobId
from evertick.base.instants import to_datetime
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.cli.core.databases import chosen_tenant
from evertick.cli.sessions.base import OnDatabase
from evertick.store.store import Store


@dataclass(frozen=True, slots=True)
class ScriptSession(OnDatabase):
    """The operations on scripts, on an open database."""

    app: App
    has_code: bool
    """Whether the app is the one that was named."""

    @property
    def scripts(self) -> TenantScripts:
        """The operations."""
        return self.app.tenant(chosen_tenant()).scripts

    def start(self, name: str, input: Any, *, version: int | None, delay: float) -> JobId:
        """Run a script after `delay` seconds; return the id of its job. `version` None means the published one.

        Raises Misuse if it is not known which app's workers run scripts.
        """
        if not self.has_code and _app_name(self.store) is None:
            raise Misuse("nothing here has run scripts yet; name the app with --app FILE")
        return self.scripts.start(name, input, version=version, delay=delay)

    def due_at(self, job_id: JobId) -> datetime | None:
        """The due time of a job; None if it does not exist any more."""
        job = self.read(lambda transaction: transaction.get_job(job_id, tenant=chosen_tenant()))
        return None if job is None else to_datetime(job.due_at)

    def logs(self, job_id: JobId) -> JobLogs:
        """The log lines of all attempts at a run."""
        return JobLogs.of(self.read(lambda transaction: transaction.list_logs(job_id)), None)

    def close(self) -> None:
        """Release the resources of the app."""
        self.app.close()


def session_of(app: App, store: Store) -> ScriptSession:
    """The scripts of an app, on its database. Raises Misuse if the app runs no scripts."""
    if not app.uses_scripts:
        raise Misuse(f"the app {app.name} runs no scripts: its code must use app.scripts (function {SCRIPT_FUNCTION})")
    return ScriptSession(store, app, has_code=True)


def session_on(store: Store) -> ScriptSession:
    """The scripts of an open database. The app is the one whose workers run them."""
    app = App(_app_name(store) or "evertick")
    app.open_on(store)
    return ScriptSession(store, app, has_code=False)


def _app_name(store: Store) -> str | None:
    return store.view(lambda transaction: app_of_scripts(transaction, chosen_tenant()))
