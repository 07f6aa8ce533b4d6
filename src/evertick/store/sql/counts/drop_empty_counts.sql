-- drop_empty_counts: forget functions of which no job is left. Reads the index job_counts_empty.
delete from job_counts
 where unfinished = 0 and success = 0 and failed = 0 and canceled = 0 and retried = 0
