"""The status of workflows over SQL."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from evertick.base.instants import Instant
from evertick.base.records.workflow_types import WorkflowStatus, WorkflowType
from evertick.store.transaction.driver import Driver

_STATUS: Final = {status.value: status for status in WorkflowStatus}
"""A status that this code does not know, of a newer release or damaged, lets no run start."""


class WorkflowTypes(Driver):
    """What the contract `Workflows` says of workflow types."""

    def workflow_types(self, names: Collection[str] | None = None) -> Mapping[str, WorkflowType]:
        """The workflows that were given a status, by name; of `names`, or all of them in the order of their names."""
        if names is None:
            found = self._fetch("workflow_types", {})
        else:
            found = self._fetch("workflow_types_named", {"names": json.dumps(sorted(names))})
        return {
            row[0]: WorkflowType(row[0], _STATUS.get(row[1], WorkflowStatus.PAUSED), Instant(row[2])) for row in found
        }

    def save_workflow_type(self, given: WorkflowType) -> None:
        """Give a workflow a status."""
        self._run(
            "save_workflow_type", {"name": given.name, "status": given.status.value, "changed_at": given.changed_at}
        )
