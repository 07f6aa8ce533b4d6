-- waiting_size: how many messages a run has not taken, at most :limit, and how many characters their values have. Without its
-- name SQLite reads the index of all.
select count(*), coalesce(sum(size), 0)
  from (select coalesce(length(result), 0) as size
          from workflow_inbox {indexed by workflow_inbox_waiting}
         where run_id = :run_id and taken_at is null limit :limit) as found
