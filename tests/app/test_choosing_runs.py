"""How filters of runs are asked of the store."""

from evertick.app.workflows.choice import runs_where
from evertick.base.ids import DEFAULT_TENANT


def test_the_attribute_that_narrows_most_is_looked_up_first() -> None:
    where = runs_where(DEFAULT_TENANT, attributes={"paid": True, "customer": "ada", "n": 7})
    assert where.runs is not None
    assert where.runs.attributes == (("customer", '"ada"'), ("n", "7"), ("paid", "true"))
