-- edge_finished: the last of the :skip + 1 rows that list_finished looks at, in the order of its index; none if there
-- are fewer.
select id
  from history
 where tenant = :tenant {by} and state = :state and {id} {beyond} :beyond
 order by {id} {order}
 limit 1
offset :skip
