-- list_logs: the lines that the attempts of a job have logged so far, attempt by attempt.
select attempt, number, at, level, text, is_cut
  from logs
 where job_id = :id
 order by attempt, number
