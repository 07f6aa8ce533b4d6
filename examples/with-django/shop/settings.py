"""Django's settings. SHOP_DATABASE_URL=postgresql://user:password@host:port/name takes the place of the SQLite file."""

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

HERE = Path(__file__).parent.parent
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only for the example")
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = ["evertick.integrations.django", "shop"]
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

EVERTICK = {"APP": "shop.jobs.app"}

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": HERE / "shop.db"}}
if url := os.environ.get("SHOP_DATABASE_URL"):
    at = urlsplit(url)
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": at.path.lstrip("/"),
        "USER": unquote(at.username or ""),
        "PASSWORD": unquote(at.password or ""),
        "HOST": at.hostname or "",
        "PORT": str(at.port or ""),
        "OPTIONS": dict(parse_qsl(at.query)),
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "evertick.integrations.logs.JobFilter"}},
    "formatters": {"json": {"()": "evertick.integrations.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["job"], "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
}
