"""How long the pages of lists are at most."""

from typing import Final

PAGE_MAX: Final = 1_000
"""Rows of a page."""
TENANTS_MAX: Final = 10_000
"""Rows of a page of tenants."""
