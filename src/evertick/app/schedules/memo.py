"""The user's memo of a schedule: JSON of any shape, up to a limit."""

import json
from typing import Any, Final

from evertick.base.errors import InvalidArguments, LimitExceeded

MEMO_BYTES_MAX: Final = 64 * 1024


def check_user_memo(memo: dict[str, Any] | None) -> dict[str, Any]:
    """The user's memo, if it can be kept. Raises InvalidArguments if it is not JSON, LimitExceeded if it is large."""
    if memo is None:
        return {}
    try:
        text = json.dumps(memo, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"the memo must be JSON: {error}") from error
    if not isinstance(memo, dict):
        raise InvalidArguments(f"the memo must be an object of JSON, not {type(memo).__name__}")
    if len(text) > MEMO_BYTES_MAX:
        raise LimitExceeded(f"the memo has {len(text)} bytes; the limit is {MEMO_BYTES_MAX}")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
