"""The status of workflows in the store."""

from evertick.base.records.workflows import WorkflowStatus, WorkflowType
from evertick.store.store import Store
from tests.store.rows import at


def test_a_workflow_keeps_the_status_that_it_was_given_last(store: Store) -> None:
    assert store.read(lambda tx: tx.workflow_types()) == {}

    flow = WorkflowType("app.flow", WorkflowStatus.PAUSED, at(1_000))
    other = WorkflowType("app.another", WorkflowStatus.DELETED, at(2_000))
    again = flow._replace(status=WorkflowStatus.ACTIVE, changed_at=at(3_000))
    store.write(lambda tx: [tx.save_workflow_type(each) for each in (flow, other, again)])

    assert store.read(lambda tx: tx.workflow_types()) == {"app.another": other, "app.flow": again}
    assert list(store.read(lambda tx: tx.workflow_types())) == ["app.another", "app.flow"]
    assert store.read(lambda tx: tx.workflow_types(["app.flow", "app.unknown"])) == {"app.flow": again}
    assert store.read(lambda tx: tx.workflow_types([])) == {}
