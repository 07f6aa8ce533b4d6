-- use_pool_starts: jobs of a pool have started.
update pool_limits
   set used_until_us = :used_until_us
 where pool = :pool
