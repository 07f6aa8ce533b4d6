"""What all commands share: output, exit codes, databases, loading an app."""
