-- get_runs: the records of the runs in the JSON list :runs.
select run_id, seed, generation, parent_seq, progress, attributes, restarted_from
  from workflow_runs
 where run_id in {list :runs}
