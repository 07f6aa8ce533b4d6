"""Jobs: lists and single ones, cancel and keys."""
