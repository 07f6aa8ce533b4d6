-- found_jobs: as SQLite's; lateral joins make PostgreSQL read the end of each state and of each function by itself.
with found (id) as (
    (select id from history where tenant = :tenant and key >= :text and key < :beyond limit :limit)
    union all
    (select id from jobs
      where tenant = :tenant and key >= :text and key < :beyond and state in ('pending', 'in_progress')
      limit :limit)
    union all
    {for rows by in history state, jobs name}
    (select r.id
       from {each :{by}s} as e
      cross join lateral (select id from {rows}
                           where tenant = :tenant and {by} = e.each and (id || '') >= :text and (id || '') < :beyond
                           order by (id || '') limit :limit) as r
      limit :limit)
    union all
    (select r.id
       from {each :{by}s} as e
      cross join lateral (select id, key from {rows} where tenant = :tenant and {by} = e.each
                           order by (id || '') desc limit :beside_{by} + 1) as r
      where position(:text in r.id) > 0 or position(:text in r.key) > 0
      limit :limit)
    {then union all}
)
select id, kind, name, state, key from jobs where id = any (array(select id from found))
union all
select id, kind, name, state, key from history where id = any (array(select id from found))
