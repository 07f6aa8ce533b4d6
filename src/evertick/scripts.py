"""Scripts: code of an app's customers, which runs in a sandbox; what `app.scripts` takes and returns.

app.scripts.plan(ScriptPlan(cpu_ms=500, runs_per_hour=1_000))
app.tenant("acme").scripts.create("cart", source, language="javascript")
"""

from evertick.api.scripts import (
    IsolationView,
    PublishedScript,
    ScriptActivityView,
    ScriptErrorView,
    ScriptLogLine,
    ScriptPlanView,
    ScriptRunView,
    ScriptSummary,
    ScriptTestView,
    ScriptVersionSummary,
    ScriptVersionView,
    ScriptView,
)
from evertick.app.scripts.api import AsyncScripts, Scripts, TenantScripts
from evertick.app.scripts.plan import ScriptPlan
from evertick.base.errors import SandboxUnavailable
from evertick.sandbox.protocol import Language, Level, Outcome

__all__ = [
    "AsyncScripts",
    "IsolationView",
    "Language",
    "Level",
    "Outcome",
    "PublishedScript",
    "SandboxUnavailable",
    "ScriptActivityView",
    "ScriptErrorView",
    "ScriptLogLine",
    "ScriptPlan",
    "ScriptPlanView",
    "ScriptRunView",
    "ScriptSummary",
    "ScriptTestView",
    "ScriptVersionSummary",
    "ScriptVersionView",
    "ScriptView",
    "Scripts",
    "TenantScripts",
]  # fmt: skip
