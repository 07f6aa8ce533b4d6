"""Commands in processes that begin with everything imported: each is a fork of this one, which imports it once.

The tests run several hundred commands to their end, and programs that use Evertick. The import of the packages that one
needs costs half a second of processor time, and what it does a few milliseconds. This program imports them and the
modules that its further arguments name, then reads requests from the socket whose number is its first argument: the
words, the folder, the environment and the three files of a command, and whether it is `python` instead of `evertick`.
It forks a process for each, and sends back its exit code. Starts of the real program are tested where they matter
(`test_small.py`, `test_processes.py`), and everything that goes on is started as a user does it (`programs.Program`).
"""

import atexit
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from typing import NoReturn

REQUEST_MAX = 1 << 20
FILES = 3
"""Input, output, errors."""


def main(number: int, modules: list[str]) -> None:
    """Serve requests until the other side is closed."""
    import evertick.cli
    import evertick.cli.main

    for module in pkgutil.walk_packages(evertick.cli.__path__, "evertick.cli."):
        importlib.import_module(module.name)
    for name in modules:
        importlib.import_module(name)
    with socket.socket(fileno=number) as requests:
        while True:
            request, files, _, _ = socket.recv_fds(requests, REQUEST_MAX, FILES)
            if not request:
                return
            child = os.fork()
            if child == 0:
                requests.close()
                _run(json.loads(request), files)
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            requests.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _run(request: dict[str, object], files: list[int]) -> NoReturn:
    """Be the command, as a new process is: its files, folder, environment and words."""
    code: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[call-overload]
        os.chdir(str(request["folder"]))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding="utf-8", errors="backslashreplace",
            line_buffering=True,
        )  # fmt: skip
        words: list[str] = request["words"]  # type: ignore[assignment]
        try:
            code = _python(words) if request["is_python"] else _evertick(words)
        except SystemExit as end:
            code = end.code
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does at its end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else code is not None)


def _evertick(words: list[str]) -> int:
    import evertick.cli.main

    sys.argv = ["evertick", *words]
    return evertick.cli.main.main()


def _python(words: list[str]) -> int:
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
