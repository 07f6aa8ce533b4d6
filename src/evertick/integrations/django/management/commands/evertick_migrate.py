"""`manage.py evertick_migrate`: migrate Evertick's tables to this version. Safe to run again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from evertick.base.errors import EvertickError
from evertick.integrations.django.configuration import migrate, setting


class Command(BaseCommand):  # type: ignore[misc]
    """See the module."""

    help = "Migrates Evertick's tables to this version. `manage.py migrate` does this too, after Django's own tables."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option for the database."""
        parser.add_argument("--database", help="Django's name of the database. Default: as in the setting EVERTICK.")

    def handle(self, *_: Any, database: str | None = None, **__: Any) -> None:
        """Migrate, and print the migrations."""
        try:
            steps = migrate(database or setting("DATABASE"))
        except EvertickError as error:
            raise CommandError(str(error)) from error
        for step in steps:
            self.stdout.write(step)
        self.stdout.write(f"{len(steps)} step{'s' if len(steps) > 1 else ''} taken" if steps else "nothing to do")
