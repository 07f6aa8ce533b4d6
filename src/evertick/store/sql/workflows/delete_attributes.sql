-- delete_attributes: what the runs of the JSON list :runs have here.
delete from workflow_attributes where run_id in {list :runs}
