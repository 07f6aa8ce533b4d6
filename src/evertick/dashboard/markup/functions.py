"""Functions in words: what each kind of them promises."""

from typing import Any, Final

from evertick.base.records.jobs import FunctionKind

PROMISES: Final = {
    FunctionKind.QUERY: "query, reads only",
    FunctionKind.MUTATION: "mutation, exactly once",
    FunctionKind.ACTION: "action, at most once",
    FunctionKind.WORKFLOW: "workflow, step by step",
}


def kind_words(function: Any) -> str:
    """`action, 3 attempts`: the kind of a function, and how often it runs."""
    retry = function.retry
    if function.kind is FunctionKind.ACTION and retry is not None and retry.attempts_max > 1:
        return f"action, up to {retry.attempts_max} attempts"
    return PROMISES[function.kind]
