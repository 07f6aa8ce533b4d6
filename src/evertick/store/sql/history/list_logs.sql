-- list_logs: the lines that the attempts of a job have logged so far, attempt by attempt. What its schedule has logged of
-- it, as attempt 0, is in lists of lines alone.
select attempt, number, at, level, text, is_cut
  from logs
 where job_id = :id and attempt > 0
 order by attempt, number
