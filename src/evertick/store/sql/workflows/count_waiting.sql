-- count_waiting: how many messages a run has not taken, at most :limit. Without its name SQLite reads the index of all.
select count(*)
  from (select 1 from workflow_inbox {indexed by workflow_inbox_waiting}
         where run_id = :run_id and taken_at is null limit :limit) as found
