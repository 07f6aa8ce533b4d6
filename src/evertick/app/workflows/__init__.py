"""`app.workflows`: runs of workflows from outside and inside functions."""
