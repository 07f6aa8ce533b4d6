-- What further filters ask of a row of jobs or history; one that is null does not narrow. {says} asks whether :error is
-- part of an error's type and message as they are shown, in lower case and with JSON's escapes. :in_pool is "/mail", the end
-- of the full name of a pool, "shop/mail". It shares a condition with :due_until: with one more, SQLite sorts rows that an
-- index has in order. So do others. The job of an occurrence was requested for its nominal time.
   and case when cast(:name as text) is null or name = :name
            then cast(:schedule_id as text) is null or schedule_id = :schedule_id
            else false end
   and case when cast(:parent_id as text) is null or parent_id = :parent_id
            then cast(:occurrence_from as bigint) is null
                 or (schedule_id is not null and requested_at >= :occurrence_from and requested_at < :occurrence_until)
            else false end
   and (cast(:key as text) is null or key = :key)
   and case when cast(:limit_key as text) is null or limit_key = :limit_key
            then cast(:due_from as bigint) is null or due_at >= :due_from else false end
   and case when cast(:in_pool as text) is null
                 or substr('/' || coalesce(pool, 'default'),
                           2 + length(coalesce(pool, 'default')) - length(cast(:in_pool as text))) = :in_pool
            then cast(:due_until as bigint) is null or due_at < :due_until
            else false end
   and (cast(:kind as text) is null and (:without_runs = 0 or kind <> 'workflow') or kind = :kind and (
        cast(:prefix as text) is null or substr(key, 1, length(cast(:prefix as text))) = :prefix))
   and case when :roots = 0 or {is root} then cast(:error as text) is null or {says} else false end
