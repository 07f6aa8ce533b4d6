"""Engine: everything that runs. Loops of one shape over the store: claim, run, finish, reap, prune."""
