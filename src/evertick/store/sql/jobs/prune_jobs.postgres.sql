-- prune_jobs: remove at most :limit jobs that ended before :before, the oldest first. Reads the index jobs_completed.
-- PostgreSQL's own, because it may join `in (select ...)` with all jobs; another pruner's rows are skipped.
delete from jobs
 where id = any (array(select id
                         from jobs
                        where completed_at < :before
                        order by completed_at
                        limit :limit
                          for update skip locked))
