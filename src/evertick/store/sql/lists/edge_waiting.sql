-- edge_waiting: where a look of list_waiting ends, after :skip jobs of all tenants, if there are more.
select due_at, id
  from jobs {indexed by jobs_waiting}
 where state = 'pending' and stage = 'waiting'
   and (due_at, id) > (:beyond_at, :beyond_id) and (due_at, id) <= (:horizon_at, :horizon_id)
 order by due_at, id
 limit 1
offset :skip
