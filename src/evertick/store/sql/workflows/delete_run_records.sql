-- delete_run_records: what the runs of the JSON list :runs have here.
delete from workflow_runs where run_id in {list :runs}
