"""Rules of schedules: the results of events. Pure: no clock, no store."""
