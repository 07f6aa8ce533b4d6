"""The record of a mutation that was called from outside with an idempotency key."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A mutation called from outside with an idempotency key, and what it answered."""

    name: str
    fingerprint: str
    result: str
