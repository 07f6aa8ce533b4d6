-- beginnings: of each job in the JSON list :ids the jobs from which it follows, how many steps up, with their keys: at most
-- :limit steps up. A job that is no longer kept has no key, and nothing is known of what is above it.
with recursive found (line_of, id, steps) as (
    select each {by bytes}, each {by bytes}, 0
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
