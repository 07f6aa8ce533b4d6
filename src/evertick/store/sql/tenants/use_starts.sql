-- use_starts: jobs of a tenant have started.
update tenant_limits
   set used_until_us = :used_until_us
 where tenant = :tenant
