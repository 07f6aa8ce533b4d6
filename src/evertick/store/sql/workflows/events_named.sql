-- events_named: the first :limit events of a name that were sent to a run and not taken. Reads the index
-- workflow_inbox_waiting: a run has a thousand at most.
select name, key, sent_at, coalesce(length(result), 0), id, sender
  from workflow_inbox {indexed by workflow_inbox_waiting}
 where run_id = :run_id and taken_at is null and kind = 'event' and name = :name
 order by id
 limit :limit
