"""Forks: a child process that a function has made with `os.fork` ends where the function ends.

The child has a copy of the thread that forked and of nothing else. The other threads of the engine and the connections
to the database belong to the parent: the child would wait for ever, or write on the parent's connection.
"""

import os
import sys
import traceback


def end_if_forked(process: int, error: BaseException | None) -> None:
    """End this process, unless it is `process`, in which the function began that has just returned or raised `error`.

    The exit code is the one that a program has which ends like this: 0, that of SystemExit, or 1.
    """
    if os.getpid() == process:
        return
    code = 0
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        code = error.code or 0
    elif error is not None:
        code = 1
        if isinstance(error, SystemExit):
            print(error.code, file=sys.stderr)
        else:
            traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)
