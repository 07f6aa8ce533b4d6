-- put_documents: write documents, new or changed, in one round trip.
insert into documents (tenant, id, body)
select *
  from unnest(:tenant::text[], :id::text[], :body::text[])
on conflict (tenant, id) do update set body = excluded.body
