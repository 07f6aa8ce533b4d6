-- forget_open_occurrences: the schedule goes, and with it what it knew of its runs.
delete from open_occurrences
 where tenant = :tenant and schedule_id = :id
