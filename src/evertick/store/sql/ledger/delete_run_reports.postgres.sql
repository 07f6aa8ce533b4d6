-- delete_run_reports: the reports were heard, in one round trip. They are looked up in the primary key.
delete from run_reports
 where job_id = any (array(select job_id from json_to_recordset(:rows::json) as h (job_id text)))
