-- start_limits: what holds back the tenants in the JSON list :tenants, locked until the end of the claim, so that two
-- workers do not both take the last place. A tenant for which another worker claims just now is skipped.
select tenant, running, starts_per_minute, used_until_us
  from tenant_limits
 where tenant in {list :tenants}
   and (running is not null or starts_per_minute is not null)
{for update skip locked}
