"""Commands that wait: a hint ends the wait, and what came meanwhile is one reason to look."""

from evertick.cli.core.change_waiter import ChangeWaiter
from evertick.store.open import open_store
from tests.store.rows import insert, new_job

FOR_EVER_S = 3_600.0


def test_hints_that_came_before_end_one_wait() -> None:
    store = open_store("sqlite://")
    store.migrate()
    with ChangeWaiter(store) as news:
        insert(store, new_job(1))
        insert(store, new_job(2))

        news.wait(FOR_EVER_S)
        assert news._hints.empty()
        insert(store, new_job(3))
        news.wait(FOR_EVER_S)
        assert news._hints.empty()
        news.wait(0.0)  # nothing is left: the time ends it
    store.close()


def test_who_left_hears_nothing() -> None:
    store = open_store("sqlite://")
    store.migrate()
    with ChangeWaiter(store) as news:
        pass
    insert(store, new_job(1))

    assert news._hints.empty()
    store.close()
