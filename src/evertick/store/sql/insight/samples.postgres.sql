-- samples: as SQLite's; a lateral join makes PostgreSQL read the end of each function's part of the index history_by_name.
select n.each, h.started_at - h.due_at,
       h.completed_at - case h.kind when 'workflow' then h.created_at else h.started_at end
  from {each :names} as n
 cross join (values ('success'), ('failed')) as s (state)
 cross join lateral (select kind, created_at, started_at, due_at, completed_at
                       from history
                      where tenant = :tenant and name = n.each and state = s.state
                      order by (id || '') desc
                      limit :beside + 1) as h
 where h.started_at is not null
