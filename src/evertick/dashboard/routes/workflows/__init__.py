"""The pages of workflows: runs, one run, what is done to them, and the workflows themselves."""
