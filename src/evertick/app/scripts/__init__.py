"""Scripts that an app's customers write: `app.scripts`."""
