-- tenants_with_documents: tenants beyond :after with rows in documents, by name: one step of the primary key for each.
with recursive found (tenant) as (
  select * from (select tenant from documents where tenant > :after order by tenant limit 1) as first
  union all
  select (select d.tenant from documents d where d.tenant > found.tenant order by d.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
