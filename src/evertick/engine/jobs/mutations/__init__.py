"""Mutations, many in one commit, each exactly once.

* `loop` claims due mutations in batches (first commit), and suspects one by one,
* `batch` runs a batch and writes how each ended, in one transaction (second commit),
* `recovery` runs batches again, as a whole or in parts, until the end of each mutation is written.
"""
