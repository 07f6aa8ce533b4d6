"""Transactions, and the notifications of their commits."""
