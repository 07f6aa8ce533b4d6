-- found_jobs: as SQLite's; lateral joins make PostgreSQL read the end of each state and of each function by itself.
with found (id) as (
    (select id from history where tenant = :tenant and key >= :text and key < :beyond limit :limit)
    union all
    (select id from jobs
      where tenant = :tenant and key >= :text and key < :beyond and state in ('pending', 'in_progress')
      limit :limit)
    union all
    (select h.id
       from {each :states} as s
      cross join lateral (select id from history
                           where tenant = :tenant and state = s.each and (id || '') >= :text and (id || '') < :beyond
                           order by (id || '') limit :limit) as h)
    union all
    (select j.id
       from {each :names} as n
      cross join lateral (select id from jobs
                           where tenant = :tenant and name = n.each and (id || '') >= :text and (id || '') < :beyond
                           order by (id || '') limit :limit) as j
      limit :limit)
    union all
    (select h.id
       from {each :states} as s
      cross join lateral (select id from history where tenant = :tenant and state = s.each
                           order by (id || '') desc limit :beside + 1) as h
      where position(:text in h.id) > 0
      limit :limit)
    union all
    (select j.id
       from {each :names} as n
      cross join lateral (select id from jobs where tenant = :tenant and name = n.each
                           order by (id || '') desc limit :beside_each + 1) as j
      where position(:text in j.id) > 0
      limit :limit)
)
select id, kind, name, state, key from jobs where id = any (array(select id from found))
union all
select id, kind, name, state, key from history where id = any (array(select id from found))
