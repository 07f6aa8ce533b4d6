-- prune_jobs: remove at most :limit jobs that ended before :before. Reads the index jobs_completed.
delete from jobs
 where id in (select id
                from jobs
               where completed_at < :before
               order by completed_at
               limit :limit)
