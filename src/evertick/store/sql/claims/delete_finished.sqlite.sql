-- delete_finished: remove jobs that stand in `history` now. :ids is a JSON list. PostgreSQL moves a job in one statement.
delete from jobs
 where id in (select value from json_each(:ids))
