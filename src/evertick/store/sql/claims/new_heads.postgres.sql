-- new_heads: in each of the gaps that the known (:queues, :tenants) and the queues :others leave between them, the first
-- tenant with ready jobs, and the rank of its first job: one step of the index jobs_ready a gap.
-- PostgreSQL's own: the entries of claimed jobs stay in the index until the next VACUUM, and what is known is left out.
with known (queue, tenant, to_queue, to_tenant) as (
    select 0::bigint, '', 0::bigint, ''
    union all
    select queue, tenant, queue, tenant from unnest(:queues::bigint[], :tenants::text[]) as head (queue, tenant)
    union all
    select queue, '', queue + 1, '' from unnest(:others::bigint[]) as other (queue)
), gap as (
    select to_queue as queue, to_tenant as tenant,
           lead(queue, 1, 9223372036854775807) over in_order as end_queue, lead(tenant, 1, '') over in_order as end_tenant
      from known
    window in_order as (order by queue, tenant collate "C")
)
select head.queue, head.tenant, head.rank
  from gap
 cross join lateral (select queue, tenant, rank
                       from jobs
                      where state = 'pending' and stage = 'ready'
                        and (queue, tenant) > (gap.queue, gap.tenant) and (queue, tenant) < (gap.end_queue, gap.end_tenant)
                      order by queue, tenant, rank
                      limit 1) as head
