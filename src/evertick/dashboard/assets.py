"""The static files of pages: styles, scripts, images. Their addresses have a hash, so browsers cache them forever."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

FILES: Final = {
    "dash.css": "dash.css",
    "dash.js": "dash.js",
    "charts.js": "charts.js",
    "schedules.css": "schedules.css",
    "schedules.js": "schedules.js",
    "jobs.js": "jobs.js",
    "editor.css": "editor.css",
    "editor.js": "editor.js",
    "operations.css": "operations.css",
    "scripts.css": "scripts.css",
    "scripts.js": "scripts.js",
    "gateways.css": "gateways.css",
    "favicon.svg": "favicon.svg",
    "htmx.js": "vendor/htmx-4.0.1.min.js",
    "uplot.js": "vendor/uplot-1.6.32.min.js",
    "uplot.css": "vendor/uplot-1.6.32.min.css",
}
"""The files by the names that pages use."""


@cache
def content_of(name: str) -> bytes:
    """The content of a file. Raises KeyError for an unknown name."""
    return files("evertick.dashboard").joinpath("static", FILES[name]).read_bytes()


@cache
def asset(name: str) -> str:
    """The address of a file below the server's prefix, with the hash of its content."""
    return f"/assets/{sha256(content_of(name)).hexdigest()[:12]}/{name}"
