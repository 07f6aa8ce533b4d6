"""The ledger of occurrences."""
