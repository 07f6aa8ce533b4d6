"""Ending a process while a function of the user's runs in a thread, which cannot be ended.

Python waits at its end for every thread. A worker that has a deadline must not.
"""

import logging
import os
import sys
import threading
import time
from typing import Final

from evertick.cli.core.exits import Exit

_logger: Final = logging.getLogger("evertick.cli")

LAST_THREADS_S: Final = 0.2


def end(code: int) -> int:
    """Return `code`, or end the process with it where threads still run."""
    deadline = time.monotonic() + LAST_THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                leave(code)
    return code


def abandon() -> None:
    """End this process without waiting for anything: what was running is given back by the next worker."""
    _logger.error("something does not end; leaving it: the next worker gives back what was running")
    leave(Exit.INTERRUPTED)


def leave(code: int) -> None:
    """End this process now."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
