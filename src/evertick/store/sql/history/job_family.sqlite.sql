-- job_family: a job and all that follow from it, at most :limit: what it has scheduled, what those have, and so on.
-- SQLite's own, because PostgreSQL allows a recursive query to refer to itself only once.
with recursive family (id) as (
    select :id
    union
    select jobs.id
      from family
      join jobs on jobs.tenant = :tenant and jobs.parent_id = family.id
    union
    select history.id
      from family
      join history on history.tenant = :tenant and history.parent_id = family.id
     limit :limit
)
select id
  from family
