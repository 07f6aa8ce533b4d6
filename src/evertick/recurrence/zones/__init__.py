"""Time zones: their files, their tables, and the conversion between local times and instants."""
