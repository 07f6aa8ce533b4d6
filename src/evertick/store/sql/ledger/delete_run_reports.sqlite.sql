-- delete_run_reports: the report was heard. SQLite runs it once a row.
delete from run_reports
 where job_id = ?
