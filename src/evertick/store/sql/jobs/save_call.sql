-- save_call: remember the answer of a call, in the mutation's own transaction. A key exists once.
insert into calls (tenant, key, name, fingerprint, result, created_at)
values (:tenant, :key, :name, :fingerprint, :result, :created_at)
