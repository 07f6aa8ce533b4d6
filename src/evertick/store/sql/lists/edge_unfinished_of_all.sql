-- edge_unfinished_of_all: as edge_finished, for each function in the JSON list :names.
select (select id
          from jobs
         where tenant = :tenant and name = names.each and {id} {beyond} :beyond
         order by {id} {order}
         limit 1
        offset :skip)
  from {each :names} as names
