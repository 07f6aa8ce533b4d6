-- delete_run_reports: the reports were heard, in one round trip.
delete from run_reports
 using json_to_recordset(:rows::json) as h (job_id text)
 where run_reports.job_id = h.job_id
