"""The base of every part of the engine: loops, executors, heartbeat, settings, metrics."""
