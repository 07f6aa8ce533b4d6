-- delete_logs: remove at most :limit lines that jobs logged. :ids is a JSON list.
delete from logs
 where (job_id, attempt, number) in (select job_id, attempt, number
                                       from logs
                                      where job_id in (select value from json_each(:ids))
                                      limit :limit)
