"""The wire form: a spec as JSON, read, checked and written."""
