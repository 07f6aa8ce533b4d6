"""`evertick script`: scripts of an app's customers."""
