"""The routes of the pages, one file for each subject. Changes use the endpoints of the HTTP API."""
