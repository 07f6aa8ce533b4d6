"""What every part of the engine stands on: loops, executors, heartbeat, settings, metrics."""
