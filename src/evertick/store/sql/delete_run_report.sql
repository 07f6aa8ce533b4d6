-- delete_run_report: the report was heard.
delete from run_reports
 where job_id = :job_id
