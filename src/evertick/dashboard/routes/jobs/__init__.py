"""The pages of jobs: one job, and what is done to one and to many."""
