-- edge_unfinished_of_all: as SQLite's; the list is read with PostgreSQL's own function.
select (select id
          from jobs
         where tenant = :tenant and name = names.each and {id} {beyond} :beyond
         order by {id} {order}
         limit 1
        offset :skip)
  from json_array_elements_text(:names::json) as names (each)
