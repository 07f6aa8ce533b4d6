-- paused_runs: those of the JSON list :runs that are paused.
select id from jobs where id in {list :runs} and stage = 'paused'
