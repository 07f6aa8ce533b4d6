-- mark_retried: write as which job a finished one runs again, if what is written so far is :replaces; null is nothing.
update history
   set retried_as = :again
 where id = :id and (tenant || '') = :tenant
   and (retried_as = cast(:replaces as text) or retried_as is null and cast(:replaces as text) is null)
returning name, state
