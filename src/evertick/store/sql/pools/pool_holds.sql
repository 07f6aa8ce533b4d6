-- pool_holds: what holds back the pools in the JSON list :pools, locked until the end of the claim, so that two workers do
-- not both take the last place. Always in the order of names: claims wait for each other, and never in a circle.
select pool, running, per_tenant, starts_per_minute, used_until_us, paused, per_key
  from pool_limits
 where pool in {list :pools}
 order by pool
{for update}
