-- close_occurrences: a run ended, or an occurrence waits no longer. SQLite runs it once a row.
delete from open_occurrences
 where tenant = ? and schedule_id = ? and nominal_at = ? and origin = ? and request = ?
