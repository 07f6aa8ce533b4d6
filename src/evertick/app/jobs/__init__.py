"""`app.jobs`: jobs as people and programs look after them: read, list, count, cancel, try again."""
