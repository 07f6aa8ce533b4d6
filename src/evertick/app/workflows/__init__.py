"""`app.workflows`: runs of workflows, outside and inside of functions."""
