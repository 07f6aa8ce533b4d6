"""The routes of the pages, a file for each subject. Changes go through the endpoints of the HTTP API."""
