-- clear_index: remove up to :limit entries of an index that is built anew or dropped.
delete from index_entries
 where tenant = :tenant and index_name = :index_name
   and (key, document_id) in (select key, document_id
                                from index_entries
                               where tenant = :tenant and index_name = :index_name
                               limit :limit)
