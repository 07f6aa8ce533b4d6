"""Store: what is true. One contract, two databases, one statement a file, one test suite for all."""
