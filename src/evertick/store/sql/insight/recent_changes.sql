-- recent_changes: the newest lines of the histories of schedules and of the audit log.
{changes}
