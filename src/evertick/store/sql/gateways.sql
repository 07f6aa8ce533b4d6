-- name: add_gateway_request
-- A request for a gateway that dials out.
insert into gateway_requests (id, gateway_id, request, deadline)
values (:id, :gateway_id, :request, :deadline)

-- name: add_join_token
-- A token with which a gateway may register once.
insert into gateway_join_tokens (hash, tenant, name, expires_at)
values (:hash, :tenant, :name, :expires_at)

-- name: beat_gateway
-- Store a gateway's heartbeat. If its crons differ from the copy, it is synced now.
update gateways
   set last_seen_at = :now, status = :status, warnings = :warnings, version = :version, digest = :digest,
       sync_at = case when copied_digest = :digest and error is null then sync_at else :now end
 where id = :id
returning rotates, case when copied_digest = :digest and error is null then 0 else 1 end

-- name: claim_gateway
-- Sync one gateway now.
update gateways
   set sync_at = :next, syncs = syncs + 1
 where id = :id
returning id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs

-- name: claim_gateways
-- Gateways that must be synced; no other process syncs them until the next time.
update gateways
   set sync_at = :next, syncs = syncs + 1
 where sync_at <= :now
   and id in (select id from gateways where sync_at <= :now order by sync_at limit :limit)
returning id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs

-- name: delete_gateway
-- Remove a gateway.
delete from gateways
 where id = :id

-- name: delete_gateway_crons
-- Remove the copy of a removed gateway's crons.
delete from gateway_crons
 where gateway_id = :id

-- name: delete_gateway_request
-- Remove a request whose sender does not wait any more.
delete from gateway_requests
 where id = :id
returning taken_at, status, reply

-- name: drop_gateway_requests
-- Remove requests whose senders died.
delete from gateway_requests
 where deadline < :before

-- name: drop_join_tokens
-- Remove tokens that are too old, and those for a name that has another one now.
delete from gateway_join_tokens
 where expires_at <= :now or (tenant = :tenant and name = :name)

-- name: forget_removed_crons
-- Remove crons that were removed at their gateway long ago.
delete from gateway_crons
 where gateway_id = :gateway_id and removed_at < :before

-- name: gateway_by_secret
-- The gateway that has a secret now, or had it before and may still use it.
select id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
  from gateways
 where secret = :secret or (old_secret = :secret and old_until > :now)

-- name: gateways_to_fetch
-- The gateways with requests to fetch.
select distinct gateway_id
  from gateway_requests
 where taken_at is null and deadline > :now

-- name: get_gateway
-- One gateway of a tenant.
select id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
  from gateways
 where tenant = :tenant and name = :name

-- name: get_gateway_request
-- Whether a request was taken, and its reply.
select taken_at, status, reply
  from gateway_requests
 where id = :id

-- name: list_crons_of_gateway
-- The copies of the crons of one gateway.
select gateway_id, cron_id, item, removed_at, next_run_at
  from gateway_crons
 where gateway_id = :gateway_id
 order by cron_id

-- name: list_gateway_crons
-- The copies of the crons of a tenant's gateways by their next times, after a position. An empty :status selects all.
-- An offline gateway may have run a cron whose next time is over.
select c.gateway_id, c.cron_id, c.item, c.removed_at, c.next_run_at
  from gateway_crons c
 where c.tenant = :tenant and (c.next_run_at, c.gateway_id, c.cron_id) > (:next_run_at, :gateway_id, :cron_id)
   and c.next_run_at < :until
   and (:status = '' or :status =
        case when c.removed_at is not null then 'removed'
             when exists (select 1 from gateways g
                           where g.id = c.gateway_id and (g.instance_id = '' or g.last_seen_at <= :offline_since))
             then 'offline'
             when c.enabled = 0 then 'disabled'
             when c.next_run_at < :due_before then 'overdue'
             else 'enabled' end)
 order by c.next_run_at, c.gateway_id, c.cron_id
 limit :limit

-- name: list_gateways
-- The gateways of a tenant by name.
select id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
  from gateways
 where tenant = :tenant and name > :after
 order by name
 limit :limit

-- name: next_sync_at
-- When the next gateway must be synced.
select min(sync_at)
  from gateways

-- name: note_failed_sync
-- Why a sync with a gateway has failed.
update gateways
   set error = :error
 where id = :id and syncs = :syncs

-- name: note_removed_cron
-- A removed cron has no next time.
update gateway_crons
   set removed_at = :now, next_run_at = :never
 where gateway_id = :gateway_id and cron_id = :cron_id

-- name: note_sync
-- Store the result of a sync with a gateway, unless a later one has begun.
update gateways
   set last_seen_at = :now, status = :status, warnings = :warnings, version = :version, digest = :digest,
       capabilities = :capabilities, commands = :commands, copied_digest = :digest, copied_at = :now, error = null
 where id = :id and syncs = :syncs

-- name: put_gateway_cron
-- A cron as received from its gateway.
insert into gateway_crons
       (tenant, gateway_id, cron_id, item, enabled, last_status, next_run_at, removed_at)
values (:tenant, :gateway_id, :cron_id, :item, :enabled, :last_status, :next_run_at, null)
    on conflict (gateway_id, cron_id) do update
   set item = excluded.item, enabled = excluded.enabled, last_status = excluded.last_status,
       next_run_at = excluded.next_run_at, removed_at = null

-- name: reply_to_request
-- Store the reply of a gateway to a fetched request, in time.
update gateway_requests
   set status = :status, reply = :reply
 where id = :id and gateway_id = :gateway_id and taken_at is not null and status is null and deadline > :now

-- name: save_gateway
-- A gateway, new or changed.
insert into gateways
       (id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
        status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
        error, sync_at, syncs)
values (:id, :tenant, :name, :secret, :old_secret, :old_until, :generation, :rotates, :url, :runtime, :version,
        :instance_id, :former_id, :status, :warnings, :capabilities, :commands, :registered_at, :last_seen_at, :digest,
        :copied_digest, :copied_at, :error, :sync_at, :syncs)
    on conflict (id) do update
   set name = excluded.name, secret = excluded.secret, old_secret = excluded.old_secret,
       old_until = excluded.old_until, generation = excluded.generation, rotates = excluded.rotates,
       url = excluded.url, runtime = excluded.runtime, version = excluded.version,
       instance_id = excluded.instance_id, former_id = excluded.former_id, status = excluded.status, warnings = excluded.warnings,
       capabilities = excluded.capabilities, commands = excluded.commands, last_seen_at = excluded.last_seen_at,
       digest = excluded.digest, copied_digest = excluded.copied_digest, copied_at = excluded.copied_at,
       error = excluded.error, sync_at = excluded.sync_at, syncs = excluded.syncs

-- name: take_gateway_requests
-- Take the requests for a gateway.
update gateway_requests
   set taken_at = :now
 where gateway_id = :gateway_id and taken_at is null and deadline > :now
returning id, request

-- name: take_join_token
-- Use up the token with which a gateway registers.
delete from gateway_join_tokens
 where hash = :hash
returning tenant, name, expires_at
