"""The dashboard: pages for people over an app's jobs, schedules and workflows, in the server's process.

Pages are HTML made here (`templates/`), with a little script (`static/dash.js`) that nothing depends on: lists, details
and forms work without it. They have the tokens, the scopes and the operations of the HTTP API, and no others.
"""
