"""The life of a job: claim, run, completion, cancellation."""
