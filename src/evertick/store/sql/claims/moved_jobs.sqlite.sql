-- moved_jobs: which of the jobs in the JSON list :ids finish_jobs has written to `history` just now: they are in both.
select id
  from jobs
 where id in (select value from json_each(:ids)) and exists (select 1 from history where history.id = jobs.id)
