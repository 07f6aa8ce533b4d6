-- delete_documents: remove documents in one round trip.
delete from documents
 where (tenant, id) in (select * from unnest(:tenant::text[], :id::text[]))
