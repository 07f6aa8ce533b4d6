"""Django's connections: what is bound to one runs in `transaction.atomic` of Django's own.

Inside an `atomic` block of the user's that is a savepoint, so an error that the user catches leaves the block usable;
outside it is a transaction, which Django commits at once.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from evertick.app.transacting import Transact, Work
from evertick.base.errors import Misuse
from evertick.store.place import place_of

T = TypeVar("T")


def transact_on(target: Any, on_driver: Callable[[Any], Transact]) -> Transact:
    """A way to run work on `django.db.connection`, or one of `django.db.connections`.

    `on_driver` does it on the connection of sqlite3 or psycopg underneath. Raises Misuse for other databases.
    """
    if target.vendor not in ("sqlite", "postgresql"):
        raise Misuse(f"cannot schedule on Django's connection {target.alias!r}: its database is {target.vendor}")

    def transact(work: Work[T]) -> T:
        from django.db import transaction

        with transaction.atomic(using=target.alias):
            return on_driver(target.connection)(work)

    return transact


def place_on(address: Callable[[], str]) -> str | None:
    """The place of Evertick's tables that the app's address names; None if there is none, or no address.

    A test database of Django's in memory has none. The place in a test's world says nothing of Django's database.
    """
    try:
        return place_of(address()) or None
    except Misuse:
        return None
