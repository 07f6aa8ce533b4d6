-- expired_jobs: at most :limit jobs that ended before :before, the oldest first. Reads the index history_completed.
select id
  from history
 where completed_at < :before
 order by completed_at
 limit :limit
