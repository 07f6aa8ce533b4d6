"""The people of the demonstration, who change things as requests to a server do: with a line in the audit log."""

from dataclasses import dataclass
from typing import Any, Final

from evertick import App
from evertick.app.access_control.audit_log import Auditor
from evertick.app.schedules.updates import update
from evertick.base.ids import DEFAULT_TENANT, TenantId

REQUEST_PREFIX: Final = "req"
OF_NO_TENANT: Final = frozenset({"pool", "tenant"})
UNREAD_BEFORE: Final = frozenset({"schedule.create", "schedule.pause", "schedule.resume", "schedule.trigger"})
"""Changes before which a server does not read the thing: the schedule's own history tells them."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person whom a server of the shop knows by name."""

    app: App
    name: str

    def does(self, action: str, target: str, *args: Any, **options: Any) -> Any:
        """Change something: `ana.does("schedule.pause", "crm.sync", "the supplier moves")`. Returns what it is then.

        `action` is what the audit log calls it: a kind of thing, and one of its operations.
        """
        kind, _, operation = action.partition(".")
        auditor = self._auditor(None if kind in OF_NO_TENANT else DEFAULT_TENANT)
        surface = getattr(self.app, f"{kind}s")
        work = getattr(surface.operations, operation)(target, *args, **options)
        before = None if action in UNREAD_BEFORE else surface.operations.get(target)
        return surface.write(auditor.audited(work, action, target, before=before))

    def edits(self, schedule_id: str, **changes: Any) -> None:
        """Change the definition of a schedule."""
        auditor = self._auditor(DEFAULT_TENANT)
        schedules = self.app.schedules
        work, before = update(schedules.operations, schedule_id, **changes), schedules.operations.get(schedule_id)
        schedules.write(auditor.audited(work, "schedule.update", schedule_id, before=before))

    def makes_token(self, name: str, *, scope: str) -> None:
        """Make a token of the shop, which does not expire."""
        auditor = self._auditor(DEFAULT_TENANT)
        tokens = self.app.tokens
        work = tokens.operations.create(name, scope=scope, tenant=DEFAULT_TENANT, expires_after=None)
        tokens.write(auditor.audited(work, "token.create", lambda made: made.id))

    def _auditor(self, tenant: TenantId | None) -> Auditor:
        """Of one request. What the app changes from now on is changed in this person's name, in histories too."""
        self.app.actor = self.name
        e = self.app.environment
        request = e.ids.make(REQUEST_PREFIX, e.clock.now())
        return Auditor(actor=self.name, request=request, tenant=tenant, now=e.clock.now, make_id=e.ids.make)
