-- found_jobs: a tenant's jobs whose key or id begins with :text (and is below :beyond), and those whose id has it somewhere,
-- among the :beside + 1 newest of each state of ended ones and the :beside_each + 1 newest of each function in :names of
-- others. At most :limit of each way. Reads the indexes of keys, history_by_state and jobs_by_name, and the rows of what it found. :states come as
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
    select id
      from (select h.id
              from {each :states} as s
             cross join history as h indexed by history_by_state
             where h.tenant = :tenant and h.state = s.each and h.id >= :text and h.id < :beyond
             limit :limit)
    union
    select id
      from (select j.id
              from {each :names} as n
             cross join jobs as j indexed by jobs_by_name
             where j.tenant = :tenant and j.name = n.each and j.id >= :text and j.id < :beyond
             limit :limit)
    union
    select id
      from (select h.id
              from {each :states} as s
             cross join history as h indexed by history_by_state
             where h.tenant = :tenant and h.state = s.each and instr(h.id, :text) > 0
               and h.id >= coalesce((select edge.id from history as edge indexed by history_by_state
                                      where edge.tenant = :tenant and edge.state = s.each
                                      order by edge.id desc limit 1 offset :beside), '')
             limit :limit)
    union
    select id
      from (select j.id
              from {each :names} as n
             cross join jobs as j indexed by jobs_by_name
             where j.tenant = :tenant and j.name = n.each and instr(j.id, :text) > 0
               and j.id >= coalesce((select edge.id from jobs as edge indexed by jobs_by_name
                                      where edge.tenant = :tenant and edge.name = n.each
                                      order by edge.id desc limit 1 offset :beside_each), '')
             limit :limit)
)
select id, kind, name, state, key from jobs where id in (select id from found)
union all
select id, kind, name, state, key from history where id in (select id from found)
