"""The supervisor: starts the zygote, runs scripts in its children, enforces every limit."""

from types import TracebackType
from typing import Self

from evertick.base.errors import Unavailable
from evertick.sandbox.protocol import Ended, Isolation, Language, Limits, ScriptError, ScriptRun


class SandboxUnavailable(Unavailable):
    """The sandbox cannot run scripts here: an engine is not installed, or its processes do not start."""

    code = "sandbox_unavailable"


class Sandbox:
    """Runs scripts, each in a process of its own that dies with the run. Thread-safe; many runs at once."""

    def start(self) -> None:
        """Start the zygote and probe the isolation. Raises SandboxUnavailable."""
        raise NotImplementedError

    def close(self) -> None:
        """Kill all runs, which end as `killed`, and end the zygote."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def isolation(self, language: Language) -> Isolation:
        """What was probed for a language; starts the zygote if needed."""
        raise NotImplementedError

    def run(self, run: ScriptRun) -> Ended:
        """Run a script to its end, at most until `limits.wall_ms` and a little."""
        raise NotImplementedError

    def check(self, language: Language, source: str, limits: Limits | None = None) -> ScriptError | None:
        """The syntax error of a source, found inside a child; None if it has none."""
        raise NotImplementedError

    def kill(self, run_id: str) -> bool:
        """End a run as `killed`; False if no such run is under way."""
        raise NotImplementedError
