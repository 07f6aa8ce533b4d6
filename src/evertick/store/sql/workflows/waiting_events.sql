-- waiting_events: the first :limit events that were sent to a run and not taken, and how many there are in all: a run has
-- a thousand at most. Reads the index workflow_inbox_waiting.
select name, key, sent_at, coalesce(length(result), 0), id, sender,
       (select count(*)
          from workflow_inbox as every {indexed by workflow_inbox_waiting}
         where every.run_id = :run_id and every.taken_at is null and every.kind = 'event')
  from workflow_inbox {indexed by workflow_inbox_waiting}
 where run_id = :run_id and taken_at is null and kind = 'event'
 order by id
 limit :limit
