-- delete_journals: what the runs of the JSON list :runs have here.
delete from workflow_journal where run_id in {list :runs}
