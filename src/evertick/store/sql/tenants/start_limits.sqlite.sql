-- start_limits: what holds back the tenants in the JSON list :tenants. SQLite has one writer: nothing to lock.
select tenant, running, starts_per_minute, used_until_us
  from tenant_limits
 where tenant in (select value from json_each(:tenants)) and (running is not null or starts_per_minute is not null)
