"""The wire form of a spec: reads, checks and writes JSON."""
