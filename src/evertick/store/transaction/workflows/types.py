"""The status of workflows over SQL."""

import json
from collections.abc import Collection, Mapping

from evertick.base.instants import Instant
from evertick.base.records.workflow_types import WorkflowStatus, WorkflowType
from evertick.store.transaction.driver import Driver


class SqlWorkflowTypes(Driver):
    """What the contract `Workflows` says of workflow types."""

    def workflow_types(self, names: Collection[str] | None = None) -> Mapping[str, WorkflowType]:
        if names is None:
            found = self._fetch("workflow_types", {})
        else:
            found = self._fetch("workflow_types_named", {"names": json.dumps(sorted(names))})
        return {row[0]: WorkflowType(row[0], WorkflowStatus(row[1]), Instant(row[2])) for row in found}

    def save_workflow_type(self, given: WorkflowType) -> None:
        self._run(
            "save_workflow_type", {"name": given.name, "status": given.status.value, "changed_at": given.changed_at}
        )
