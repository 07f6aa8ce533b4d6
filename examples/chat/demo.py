"""The self-destructing message, shown with the real commands: what `make run` does.

It starts `evertick dev app.py` in this folder, writes a message from a second process, looks at the message and at the
job that waits for it, and looks again five seconds later, when both are gone. Then, on a terminal, it goes on as
`evertick dev`, so that you can try more from another terminal or change `app.py` and watch it reload.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
EVERTICK = shutil.which("evertick", path=str(Path(sys.executable).parent)) or "evertick"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "EVERTICK_DATABASE_URL"}
MESSAGE_SECONDS = 5.0


def main() -> int:
    """Show it; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # what ends this, such as a terminal that is closed, ends the server
        signal.signal(number, interrupted)
    title(f"# {HERE}/app.py: a message that is deleted five seconds after it was written")
    title("$ evertick dev app.py")
    server = Server()
    try:
        server.started.wait()
        if not server.runs:
            return server.end()
        message = asked("run", "app.send_expiring_message", "body=this message will self-destruct", "author=ada")
        written = time.monotonic()
        title("# The message, and the job that will delete it:")
        if message not in asked("run", "app.list_messages"):
            title("# (This machine took more than five seconds for that: it is gone already.)")
        show("job", "list", "--limit", "1", "-o", "table", "--fields", "function,state,due_at,args")
        title("# ... five seconds later ...")
        time.sleep(max(0.0, written + MESSAGE_SECONDS + 0.5 - time.monotonic()))
        while server.process.poll() is None and message in output_of("run", "app.list_messages"):
            pass  # a slow machine may need longer for the job
        asked("run", "app.list_messages")
        show("job", "list", "--limit", "1", "-o", "table", "--fields", "function,state,completed_at")
        if sys.stdout.isatty() and "--once" not in sys.argv[1:]:
            title("# Gone. Now it is yours: change app.py, or call its functions from another terminal:")
            title(f"#   cd {HERE}")
            title(f"#   {EVERTICK} run app.send_expiring_message body=hello author=you")
            title("# Ctrl-C ends it.")
            return server.process.wait()
    except KeyboardInterrupt:
        pass
    return server.end()


class Server:
    """`evertick dev app.py`, with its output passed on."""

    def __init__(self) -> None:
        color = {"FORCE_COLOR": "1"} if sys.stdout.isatty() else {}
        # A process group of its own: Ctrl-C is ours to pass on, once.
        self.process = subprocess.Popen(  # noqa: S603
            [EVERTICK, "dev", "app.py"], cwd=HERE, env=ENVIRONMENT | color, stdout=subprocess.PIPE, process_group=0
        )
        self.runs = False
        self.started = threading.Event()
        threading.Thread(target=self._pass_on, daemon=True).start()

    def end(self) -> int:
        """Let it end; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def _pass_on(self) -> None:
        for line in self.process.stdout or ():
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            if line.startswith(b"  try "):  # the last line of its introduction
                self.runs = True
                self.started.set()
        self.started.set()  # or it has ended, and said why


def show(*words: str) -> None:
    """Run one command as one would type it, and let its output be seen."""
    title(f"$ evertick {shlex.join(words)}")
    run(*words, stdout=None)


def asked(*words: str) -> str:
    """The same; returns its output, too."""
    title(f"$ evertick {shlex.join(words)}")
    output = output_of(*words)
    print(output, flush=True)
    return output


def output_of(*words: str) -> str:
    """What a command writes, without showing it."""
    return run(*words, stdout=subprocess.PIPE).stdout.strip()


def run(*words: str, stdout: int | None) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end."""
    # A process group of its own: Ctrl-C ends it through us, without a traceback of what it was just importing.
    return subprocess.run(  # noqa: S603
        [EVERTICK, *words], cwd=HERE, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL, stdout=stdout, text=True,
        process_group=0,
    )  # fmt: skip


def interrupted(number: int, frame: object) -> NoReturn:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


def title(line: str) -> None:
    """A line of ours, set apart from what the commands say."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print(f"{bold}{line}{plain}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
