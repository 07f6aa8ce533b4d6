-- What further filters ask of a row of jobs or history; one that is null does not narrow. {says} asks whether :error is
-- part of an error's type and message as they are shown, in lower case and with JSON's escapes.
   and (cast(:name as text) is null or name = :name)
   and (cast(:schedule_id as text) is null or schedule_id = :schedule_id)
   and (cast(:parent_id as text) is null or parent_id = :parent_id)
   and (cast(:key as text) is null or key = :key)
   and (cast(:due_from as bigint) is null or due_at >= :due_from)
   and (cast(:due_until as bigint) is null or due_at < :due_until)
   and (cast(:error as text) is null or {says})
