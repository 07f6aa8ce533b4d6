-- script_usage: how many scripts of a tenant ran since a moment, and for how long they computed.
select count(*), coalesce(sum(cpu_ms), 0)
  from script_runs
 where tenant = :tenant and ended_at >= :since and started = 1
