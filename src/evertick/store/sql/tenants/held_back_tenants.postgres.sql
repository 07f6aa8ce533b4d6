-- held_back_tenants: which of the tenants in the JSON list :tenants have limits on what starts.
-- The list is read with PostgreSQL's own function.
select tenant
  from tenant_limits
 where tenant = any (array(select json_array_elements_text(:tenants::json)))
   and (running is not null or starts_per_minute is not null)
