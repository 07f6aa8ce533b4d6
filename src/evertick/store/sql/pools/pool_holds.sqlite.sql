-- pool_holds: what holds back the pools in the JSON list :pools. SQLite has one writer: nothing to lock.
select pool, running, per_tenant, starts_per_minute, used_until_us, paused
  from pool_limits
 where pool in (select value from json_each(:pools))
