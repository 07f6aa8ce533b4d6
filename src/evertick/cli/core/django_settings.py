"""Django in the process of a command: set up as `manage.py` does it, if the environment names its settings.

So `DJANGO_SETTINGS_MODULE=shop.settings evertick serve shop.jobs` loads an app whose functions use Django's models.
"""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from evertick.cli.core.exits import AppImportFailed

if TYPE_CHECKING:
    from evertick.app.app import App

VARIABLE: Final = "DJANGO_SETTINGS_MODULE"


def set_up() -> None:
    """Load Django's settings and its applications. Raises AppImportFailed if they cannot be loaded."""
    if is_named():
        import django

        try:
            django.setup()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise AppImportFailed(f"Django cannot be set up with {VARIABLE}={os.environ[VARIABLE]}: {what}") from error


def let_reconnect(app: "App") -> None:
    """Let each action begin with usable Django connections, as a request does."""
    if is_named():
        from evertick.integrations.django.configuration import use_fresh_connections

        use_fresh_connections(app)


def is_named() -> bool:
    """Whether the environment has the name of Django's settings, and Django is installed."""
    return bool(os.environ.get(VARIABLE)) and find_spec("django") is not None
