"""Conformance: what Convex's scheduled functions and database promise, asked of Evertick.

The facts stand in `tests/vectors/convex_scheduling.jsonl`. Names are in our spelling: `run_after` for `runAfter`,
seconds for milliseconds, `scheduled_time` for `scheduledTime`, `in_progress` for `inProgress`, `module.function` for
`module.js:function`. Where Evertick chooses otherwise on purpose, the test says so and why.
"""
