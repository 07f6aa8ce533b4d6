-- save_script_plan: the limits of a tenant that differ from those of the app.
insert into script_plans (tenant, limits)
values (:tenant, :limits)
on conflict (tenant) do update set limits = excluded.limits
