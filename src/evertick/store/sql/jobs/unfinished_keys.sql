-- unfinished_keys: which of these keys (a JSON list) unfinished jobs of a tenant hold. Reads the unique index jobs_key.
select key
  from jobs
 where tenant = :tenant and key in {list :keys} and state in ('pending', 'in_progress')
