"""Rules of jobs: states, attempts and retries. Pure: no clock, no store."""
