-- delete_attempts: remove the attempts of jobs. :ids is a JSON list. PostgreSQL does so within delete_history.
delete from attempts
 where job_id in (select value from json_each(:ids))
