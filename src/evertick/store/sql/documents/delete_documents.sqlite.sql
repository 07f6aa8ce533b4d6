-- delete_documents: remove one document. SQLite runs it once a row.
delete from documents
 where tenant = ? and id = ?
