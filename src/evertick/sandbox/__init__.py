"""Runs customers' JavaScript and Python in hardened processes, one per run.

`Sandbox` is the supervisor; `protocol` has the input and output values. The package imports nothing else of Evertick
except `evertick.base.errors`, and engines are imported only in the sandbox's own processes.

    with Sandbox() as sandbox:
        ended = sandbox.run(ScriptRun("run-1", Language.JAVASCRIPT, source, {"input": {}}))
"""

from evertick.base.errors import SandboxUnavailable
from evertick.sandbox.pool import Sandbox
from evertick.sandbox.protocol import (
    Ended,
    HostCall,
    HostError,
    HostFunction,
    Isolation,
    Json,
    Kind,
    Language,
    Level,
    Limits,
    LogLine,
    Outcome,
    Parameter,
    ScriptError,
    ScriptRun,
    StopRun,
)

__all__ = [
    "Ended",
    "HostCall",
    "HostError",
    "HostFunction",
    "Isolation",
    "Json",
    "Kind",
    "Language",
    "Level",
    "Limits",
    "LogLine",
    "Outcome",
    "Parameter",
    "Sandbox",
    "SandboxUnavailable",
    "ScriptError",
    "ScriptRun",
    "StopRun",
]
