-- samples: how late the newest jobs of some functions that ended were started, and how long they took: of each function and
-- state those with the :beside + 1 newest ids. The run of a workflow has taken the time since it was made: its job starts
-- anew after each wait. Reads the index history_by_name.
select h.name, h.started_at - h.due_at,
       h.completed_at - case h.kind when 'workflow' then h.created_at else h.started_at end
  from {each :names} as n
 cross join (select 'success' as state union all select 'failed') as s
 cross join history as h indexed by history_by_name
 where h.tenant = :tenant and h.name = n.each and h.state = s.state and h.started_at is not null
   and h.id >= coalesce((select edge.id
                           from history as edge indexed by history_by_name
                          where edge.tenant = :tenant and edge.name = n.each and edge.state = s.state
                          order by edge.id desc
                          limit 1 offset :beside), '')
