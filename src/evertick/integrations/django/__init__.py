"""Django: Evertick's tables in Django's database, and commands for them.

    # settings.py
    INSTALLED_APPS = [..., "evertick.integrations.django", "shop"]
    EVERTICK = {"APP": "shop.jobs.app"}

    # shop/jobs.py
    app = App("shop", database_url=database_url)

    # shop/views.py
    with transaction.atomic():
        order = Order.objects.create(item="tea")
        app.bind(connection).run_after(60, ship, order.pk)      # django.db.connection

`manage.py migrate` migrates the tables, as does `manage.py evertick_migrate`; `manage.py evertick_worker` runs the
jobs.
"""

from evertick.integrations.django.configuration import database_url

__all__ = ["database_url"]
