-- find_call: what a mutation answered when it was called with this idempotency key before.
select name, fingerprint, result
  from calls
 where tenant = :tenant and key = :key
