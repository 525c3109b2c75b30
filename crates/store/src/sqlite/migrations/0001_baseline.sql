-- The same tables as on PostgreSQL, whose baseline gives the reasons. Ids are text so that people can read the
-- file; times are microseconds since 1970.

-- One row: the newest version.
create table feed (
    singleton integer primary key default 1 check (singleton = 1),
    epoch integer not null default (abs(random()) % 4294967296),
    version integer not null,
    changed_time integer
);
insert into feed (version) values (0);

create table resources (
    id text primary key not null,
    kind text not null,
    name text not null,
    owner_id text references resources (id) deferrable initially deferred,
    ancestors text not null,
    tenancy text,
    generation integer not null,
    spec text not null,
    labels text not null,
    refs text not null,
    created_time integer not null,
    created_by text not null,
    updated_time integer not null,
    updated_by text not null,
    deleted_time integer,
    deleted_by text
);
-- Names are unique among active resources of a kind: for children per owner, for roots per tenant.
create unique index resources_active_name on resources (kind, coalesce(owner_id, tenancy, ''), name)
    where deleted_time is null;
-- Lists in their default order: of a kind, of an owner's children, of all kinds, of what is being deleted.
create index resources_by_kind on resources (kind, created_time, id);
create index resources_by_owner on resources (owner_id, kind, created_time, id) where owner_id is not null;
create index resources_by_creation on resources (created_time, id);
create index resources_finalizing on resources (kind, created_time, id) where deleted_time is not null;
-- Searches by name, and lists ordered by it.
create index resources_by_name on resources (kind, name, id);

-- `last_updated_times` is a list with commas, `report_times` a JSON object.
create table resource_status (
    resource_id text primary key not null,
    version integer not null,
    pending_since integer,
    updated_after integer,
    conditions text not null,
    last_updated_times text not null default '',
    report_times text
);
-- The metrics of pending resources.
create index resource_status_pending on resource_status (pending_since) where pending_since is not null;
-- Searches for conditions that were not updated since some time.
create index resource_status_stale on resource_status (updated_after);

create table resource_references (
    source_id text not null references resources (id) on delete cascade,
    ref_type text not null,
    target_id text not null references resources (id) deferrable initially deferred,
    primary key (source_id, ref_type, target_id)
);
-- Searches by reference, and deletions that must wait for referrers.
create index resource_references_by_target on resource_references (target_id, ref_type);

create table reports (
    resource_id text not null,
    adapter text not null,
    observed_generation integer not null,
    last_report_time integer not null,
    created_time integer not null,
    finalized integer not null,
    available text not null,
    reason text not null,
    message text not null,
    bytes integer not null,
    body blob not null,
    primary key (resource_id, adapter)
);

-- Reports with the later of both report times. Adapters may have any name, also one that would be a path in JSON.
-- This needs the bundled SQLite, which compares quoted keys with their escapes undone; 3.40 does not.
create view latest_reports as
select r.resource_id, r.adapter, r.observed_generation,
       max(
           r.last_report_time,
           coalesce(json_extract(s.report_times, '$.' || json_quote(r.adapter)), r.last_report_time)
       ) as last_report_time,
       r.created_time, r.finalized, r.available, r.reason, r.message, r.body
from reports r left join resource_status s on s.resource_id = r.resource_id;

create table changes (
    version integer primary key,
    resource_id text not null,
    changed_time integer not null,
    entry_count integer not null,
    touched_parts integer not null,
    kind text not null,
    tenancy text,
    actor text not null,
    request_id text not null,
    body blob not null
);
-- Timelines, past states and watches.
create index changes_by_resource on changes (resource_id, version);

-- One row: the newest version that was pruned.
create table history (
    singleton integer primary key default 1 check (singleton = 1),
    pruned_version integer not null
);
insert into history (pruned_version) values (0);

create table kind_counts (
    kind text primary key not null,
    active integer not null,
    finalizing integer not null,
    pending_active integer not null,
    pending_finalizing integer not null
);

-- Search by label, and by the status of a condition, in the order of lists.
create table resource_facets (
    facet blob not null,
    created_time integer not null,
    resource_id text not null,
    primary key (facet, created_time, resource_id)
) without rowid;

create table facet_counts (
    facet blob primary key not null,
    active integer not null,
    finalizing integer not null
) without rowid;

create table aggregations (
    kind text primary key not null,
    settings text not null,
    recheck_time integer
);

create table idempotency_records (
    key blob primary key,
    request blob not null,
    created_time integer not null,
    response text not null
) without rowid;
-- Pruning.
create index idempotency_records_by_age on idempotency_records (created_time);

create table leases (
    tenancy text not null,
    group_name text not null,
    name text not null,
    holder text not null,
    expires integer not null,
    version integer not null,
    primary key (tenancy, group_name, name)
) without rowid;
-- Pruning.
create index leases_by_expiry on leases (expires);

create table secrets (
    name text primary key not null,
    value blob not null
);
