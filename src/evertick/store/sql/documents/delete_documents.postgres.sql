-- delete_documents: remove documents in one round trip.
delete from documents d
 using json_to_recordset(:rows::json) as gone (tenant text, id text)
 where d.tenant = gone.tenant and d.id = gone.id
