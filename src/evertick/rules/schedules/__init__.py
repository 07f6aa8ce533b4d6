"""Rules of schedules: what follows from what happened. Pure: no clock, no store."""
