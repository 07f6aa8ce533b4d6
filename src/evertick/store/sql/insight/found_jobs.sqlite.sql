-- found_jobs: a tenant's jobs whose key or id begins with :text (and is below :beyond), and those whose id or key has it somewhere,
-- among the :beside_state + 1 newest of each state of ended ones and the :beside_name + 1 newest of each function in :names of
-- others. At most :limit of each way. Reads the indexes of keys, history_by_state and jobs_by_name, and the rows of what it looks at. :states come as
-- JSON: beside a list of values, SQLite would make a Bloom filter of the whole history.
with found (id) as (
    select id
      from (select id from history indexed by history_by_key
             where tenant = :tenant and key >= :text and key < :beyond limit :limit)
    union
    select id
      from (select id from jobs indexed by jobs_key
             where tenant = :tenant and key >= :text and key < :beyond and state in ('pending', 'in_progress')
             limit :limit)
    union
    {for rows by in history state, jobs name}
    select id
      from (select r.id
              from {each :{by}s} as e
             cross join {rows} as r indexed by {rows}_by_{by}
             where r.tenant = :tenant and r.{by} = e.each and r.id >= :text and r.id < :beyond
             limit :limit)
    union
    select id
      from (select r.id
              from {each :{by}s} as e
             cross join {rows} as r indexed by {rows}_by_{by}
             where r.tenant = :tenant and r.{by} = e.each and (instr(r.id, :text) > 0 or instr(r.key, :text) > 0)
               and r.id >= coalesce((select edge.id from {rows} as edge indexed by {rows}_by_{by}
                                      where edge.tenant = :tenant and edge.{by} = e.each
                                      order by edge.id desc limit 1 offset :beside_{by}), '')
             limit :limit)
    {then union}
)
select id, kind, name, state, key from jobs where id in (select id from found)
union all
select id, kind, name, state, key from history where id in (select id from found)
