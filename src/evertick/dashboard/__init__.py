"""The dashboard: pages for people about an app's jobs, schedules and workflows, in the server's process.

Pages are HTML from `templates/`, with a small script (`static/dash.js`) that is optional: lists, details and forms work
without it. Pages use the tokens, the scopes and the operations of the HTTP API, and no others.
"""
