"""The pages of functions: the jobs that call them, what each of them does, and calls made by hand."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter

from evertick.dashboard.routes.functions import calling

FUNCTIONS: Final[Sequence[APIRouter]] = (calling.routes,)
