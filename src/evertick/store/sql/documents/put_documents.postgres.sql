-- put_documents: write documents, new or changed, in one round trip.
insert into documents (tenant, id, body)
select tenant, id, body
  from json_to_recordset(:rows::json) as d (tenant text, id text, body text)
on conflict (tenant, id) do update set body = excluded.body
