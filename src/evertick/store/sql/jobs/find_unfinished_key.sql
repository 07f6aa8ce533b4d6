-- find_unfinished_key: the unfinished job that holds a key, if there is one. Reads the unique index jobs_key.
select id
  from jobs
 where tenant = :tenant and key = :key and state in ('pending', 'in_progress')
