"""Stories: what Evertick does, told on its real engine under a clock that jumps. Each file is a page about one topic.

Read them in any order; the titles of the tests are the table of contents (`pytest tests/stories --collect-only -q`).
A world begins at 2026-01-01T00:00:00Z, and `at("00:01:00")` is a moment of that day.
"""
