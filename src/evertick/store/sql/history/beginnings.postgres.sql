-- beginnings: as SQLite's; here an id must be said to compare by bytes.
with recursive found (line_of, id, steps) as (
    select each collate "C", each collate "C", 0
      from {each :ids} as asked
    union all
    select line_of,
           coalesce((select parent_id from jobs where id = found.id and tenant = :tenant),
                    (select parent_id from history where id = found.id and tenant = :tenant)),
           steps + 1
      from found
     where found.id is not null and steps < :limit
)
select line_of, steps, id, coalesce((select key from jobs where id = found.id and tenant = :tenant),
                                    (select key from history where id = found.id and tenant = :tenant))
  from found
 where id is not null
