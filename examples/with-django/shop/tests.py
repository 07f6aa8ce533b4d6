"""The shop's tests, by Django's own runner: `python manage.py test`."""

from unittest.mock import Mock

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from evertick.testing import World
from shop.jobs import app, ship
from shop.models import Order


class Ordering(TestCase):
    """Each test is a transaction that Django undoes: what it has scheduled, too."""

    def test_an_order_schedules_its_shipment(self) -> None:
        answer = self.client.post("/orders", {"item": "tea"})

        self.assertEqual(answer.status_code, 201)
        job = app.bind(connection).jobs.get(answer.json()["job"])
        self.assertEqual((job.function, job.args), ("shop.jobs.ship", {"order_id": answer.json()["order"]}))

    def test_no_other_test_has_left_a_job(self) -> None:
        self.assertEqual(app.bind(connection).jobs.list().jobs, ())

    def test_a_rollback_schedules_nothing(self) -> None:
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            app.bind(connection).run_after(60, ship, Order.objects.create(item="tea").pk)
            raise ZeroDivisionError

        self.assertEqual(app.bind(connection).jobs.list().jobs, ())

    def test_the_job_ships_the_order(self) -> None:
        order = Order.objects.create(item="tea")

        ship(Mock(), order.pk)  # the plain function, in this test's transaction

        order.refresh_from_db()
        self.assertEqual(order.state, "shipped")

    def test_an_order_is_shipped_after_an_hour(self) -> None:
        with World(app) as world:  # the clock jumps, and jobs run in this test's transaction of Django's
            order = Order.objects.create(item="tea")
            app.scheduler.run_after(3600, ship, order.pk)

            world.advance(3599)
            order.refresh_from_db()
            self.assertEqual(order.state, "new")
            world.advance(1)
            order.refresh_from_db()
            self.assertEqual(order.state, "shipped")


class Committing(TransactionTestCase):
    """Tests whose transactions are committed."""

    def test_a_commit_schedules(self) -> None:
        with transaction.atomic():
            job_id = app.bind(connection).run_after(60, ship, Order.objects.create(item="tea").pk)

        self.assertEqual(app.bind(connection).jobs.get(job_id).state, "pending")
        app.bind(connection).cancel(job_id)
