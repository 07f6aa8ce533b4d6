-- delete_view: remove a view.
delete from saved_views where tenant = :tenant and id = :id
