"""Commands of `manage.py`, a file for each."""
