-- failed_since: jobs of the tenants in the JSON list :tenants that failed at :since or later, at most :limit, with the
-- jobs as which they run again. Reads the index history_failed.
select h.tenant, h.name, h.completed_at, h.id, h.retried_as
  from json_each(:tenants) as t
 cross join history as h indexed by history_failed
    on h.tenant = t.value
 where h.state = 'failed' and h.completed_at >= :since
 limit :limit
