-- shown_runs: of each run in the JSON list :runs whether it is paused, and its record; null if it has not begun.
select r.each, coalesce((select stage from jobs where id = r.each), '') = 'paused',
       record.run_id, record.seed, record.generation, record.parent_seq, record.progress, record.attributes,
       record.restarted_from
  from {each :runs} as r
  left join workflow_runs as record on record.run_id = r.each
