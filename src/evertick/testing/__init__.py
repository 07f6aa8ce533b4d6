"""Testing: a world whose clock jumps."""
