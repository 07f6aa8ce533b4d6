-- failed_since: as SQLite's; the list is read with PostgreSQL's own function.
select h.tenant, h.name, h.completed_at, h.id, h.retried_as
  from json_array_elements_text(:tenants::json) as t (each)
 cross join lateral (select tenant, name, completed_at, id, retried_as
                       from history
                      where tenant = t.each and state = 'failed' and completed_at >= :since
                      order by completed_at desc
                      limit :limit) as h
 limit :limit
