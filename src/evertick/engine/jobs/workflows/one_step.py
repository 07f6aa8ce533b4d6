"""A run whose transaction is refused: the step that cannot be committed fails, as if its function had."""

from typing import NamedTuple

from evertick.base.outcomes import Raised


class OneStep(NamedTuple):
    """The run goes on by no more than one step in its transaction, so that it is known which one is refused."""

    refused: Raised | None = None
    """How that step ends, without being run once more: the commit of it alone was refused, too."""
