"""Engine: what moves. Loops of one shape over the store: claim, run, finish, reap, prune."""
