"""`evertick`: the program. It handles `--version` by itself, because everything else costs an import."""

import os
import signal
import sys

from evertick._version import __version__

SERVING = ("dev", "mcp", "serve", "worker")
"""Commands that go on until they are asked to stop."""


def main() -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        try:
            print(f"evertick {__version__}", flush=True)
        except BrokenPipeError:  # nothing may be left that is written at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    if arguments[:1] and arguments[0] in SERVING and arguments[1:2] != ["list"]:
        # Asked to stop before it has begun, which takes a second: nothing is there to be ended, and nothing failed.
        for each in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) is not signal.SIG_IGN:  # as `nohup` does it
                signal.signal(each, lambda *_: os._exit(0))
    if sys.stdin is None:  # it was closed before the start: nothing is there to read
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115  # until the end
    from evertick.cli.core.exits import end
    from evertick.cli.root import run

    return end(run(arguments))


if __name__ == "__main__":
    sys.exit(main())
