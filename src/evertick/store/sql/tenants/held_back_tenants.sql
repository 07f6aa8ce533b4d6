-- held_back_tenants: which of the tenants in the JSON list :tenants have limits on what starts.
select tenant
  from tenant_limits
 where tenant in {list :tenants} and (running is not null or starts_per_minute is not null)
