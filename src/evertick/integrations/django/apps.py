"""The application for INSTALLED_APPS. It has no models: Evertick manages its own tables."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from evertick.integrations.django.configuration import migrate, setting


class EvertickConfig(AppConfig):  # type: ignore[misc]
    """Evertick in Django."""

    name = "evertick.integrations.django"
    label = "evertick"
    verbose_name = "Evertick"

    def ready(self) -> None:
        """Check the setting, and make `manage.py migrate` migrate Evertick's tables."""
        if setting("MIGRATE"):
            post_migrate.connect(_migrated, sender=self, dispatch_uid="evertick")


def _migrated(using: str, verbosity: int = 1, **_: Any) -> None:
    if using == setting("DATABASE"):
        steps = migrate(using)
        if steps and verbosity > 0:
            print(f"Evertick's tables: {len(steps)} step{'s' if len(steps) > 1 else ''} taken")
