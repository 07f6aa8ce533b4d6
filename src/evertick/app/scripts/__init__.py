"""Scripts of an app's customers: `app.scripts`."""
