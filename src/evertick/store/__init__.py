"""Store: what is true. One contract, two databases, one test suite for all."""
