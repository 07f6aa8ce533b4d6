"""Store: the state of the app. One contract, two databases, one test suite for both."""
