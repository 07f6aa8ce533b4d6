"""Hostile functions: random user code against real workers, each end checked against the promises."""
