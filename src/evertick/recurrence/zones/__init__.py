"""Time zones: their files, their tables, and the way between local times and instants."""
