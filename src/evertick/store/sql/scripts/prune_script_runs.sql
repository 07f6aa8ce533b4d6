-- prune_script_runs: the oldest attempts that ended before a moment.
delete from script_runs
 where (job_id, attempt) in (select job_id, attempt from script_runs where ended_at < :before order by ended_at limit :limit)
