"""Records that join what the rules and the recurrence engine know with what the store keeps."""
