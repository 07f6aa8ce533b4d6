"""`manage.py evertick_worker`: run the jobs of the app in the setting EVERTICK until SIGTERM or Ctrl-C."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from evertick.app.embedded_worker import use_drain
from evertick.base.errors import EvertickError
from evertick.integrations.django.configuration import configured_app, use_fresh_connections
from evertick.store.addresses import shown


class Command(BaseCommand):  # type: ignore[misc]
    """See the module."""

    help = (
        "Runs the jobs of the app in EVERTICK['APP'] until SIGTERM or Ctrl-C. Then it takes no new jobs, and "
        "running actions have --drain seconds to end; a second signal ends at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options for pools and for the drain."""
        parser.add_argument("--pool", action="append", default=[], help="Run only jobs of this pool; may be repeated.")
        parser.add_argument("--drain", type=float, help="Seconds that running actions have to end when stopping.")

    def handle(self, *_: Any, pool: list[str], drain: float | None, **__: Any) -> None:
        """Run until stopped."""
        if drain is not None and not 0 <= drain < float("inf"):
            raise CommandError(f"--drain {drain:g}: give seconds, 0 or more")
        try:
            app = configured_app()
            use_drain(app, drain)
            use_fresh_connections(app)
            with app:
                self.stdout.write(f"runs the jobs of {app.name} on {shown(app.database_url)}; Ctrl-C drains and stops")
                self.stdout.flush()
                app.run(pools=pool)
                self.stdout.write("stopped")
        except EvertickError as error:
            raise CommandError(str(error)) from error
