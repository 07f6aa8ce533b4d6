"""How long starting takes: importing Evertick, registering a program's functions, and the shortest commands.

    python -m benchmarks.bench_startup

Each line is the least of ten starts, in milliseconds of CPU time and on the clock, Python's own start included; the
first line is that start alone. Opening a database and pydantic come later, with the first call of a function.
"""

import resource
import subprocess
import sys
import time
from typing import Final

STARTS: Final = 10

PROGRAM: Final = """
from evertick import App, MutationCtx
app = App("chat")
@app.mutation
def send(ctx: MutationCtx, body: str) -> str: return body
"""

COMMAND: Final = "import sys; sys.argv = ['evertick', {!r}]; from evertick.cli.main import main; sys.exit(main())"

CASES: Final = {
    "python -c pass": "pass",
    "import evertick": "import evertick",
    "from evertick import App": "from evertick import App",
    "a program with a mutation": PROGRAM,
    "a call's arguments checked": PROGRAM + "send.with_args('hi')",
    "evertick --version": COMMAND.format("--version"),
    "evertick --help": COMMAND.format("--help"),
}


def least(code: str) -> tuple[float, float]:
    """Milliseconds of CPU time and on the clock: the least of several starts, each by itself."""
    cpu, clock = [], []
    for _ in range(STARTS):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        clock.append(1000 * (time.perf_counter() - began))
        cpu.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(cpu), min(clock)


def main() -> None:
    """Print the table."""
    print(f"{'start of':<28}{'CPU ms':>8}{'clock ms':>10}")
    for name, code in CASES.items():
        cpu, clock = least(code)
        print(f"{name:<28}{cpu:>8.0f}{clock:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
