"""Runs of workflows: how they go on in the transaction of a batch, and what is written of them."""
