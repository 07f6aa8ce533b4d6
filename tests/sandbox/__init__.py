"""The sandbox: hostile programs, limits, walls, frames, and the death of its processes."""
