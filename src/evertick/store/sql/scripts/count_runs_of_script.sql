-- count_runs_of_script: how many attempts of a script ended since a moment, without tests.
select count(*)
  from script_runs
 where tenant = :tenant and script = :script and ended_at >= :since and attempt > 0
