-- edge_unfinished: as edge_finished, of list_unfinished.
select id
  from jobs
 where tenant = :tenant {by} and state in ('pending', 'in_progress') and {id} {beyond} :beyond
 order by {id} {order}
 limit 1
offset :skip
