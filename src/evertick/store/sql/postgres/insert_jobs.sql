-- insert_jobs: write scheduled calls, all rows in one round trip: PostgreSQL is a network away, SQLite is not.
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, completed_at,
                  parent_id, key, retry, on_complete)
select *
  from unnest(:id::text[], :tenant::text[], :kind::text[], :name::text[], :args::text[], :state::text[],
              :requested_at::bigint[], :due_at::bigint[], :created_at::bigint[], :completed_at::bigint[],
              :parent_id::text[], :key::text[], :retry::text[], :on_complete::text[])
