-- One row: the newest version. A writer locks it before its first read and holds it through its commit, so
-- versions are in commit order and every decision is made on committed state. `changed_time` is the time of the newest
-- change: later changes have no earlier time, whatever the clock says. `epoch` is the history that the versions
-- belong to. A restored database gets another: `update feed set epoch = default`.
create table feed (
    singleton boolean primary key default true check (singleton),
    epoch bigint not null default floor(random() * 4294967296),
    version bigint not null,
    changed_time timestamptz
);
insert into feed (version) values (0);

-- Desired state. JSON is text because it is passed through unparsed and jsonb would rewrite numbers.
-- `ancestors` holds the ids of the owners from the root down. `tenancy` is the tenant's dimensions as a JSON
-- object with sorted keys, null without tenants; it never changes. The fill factor keeps updates HOT.
create table resources (
    id uuid primary key,
    kind text collate "C" not null,
    name text collate "C" not null,
    owner_id uuid references resources (id),
    ancestors text collate "C" not null,
    tenancy text collate "C",
    generation bigint not null,
    spec text not null,
    labels text not null,
    refs text not null,
    created_time timestamptz not null,
    created_by text collate "C" not null,
    updated_time timestamptz not null,
    updated_by text collate "C" not null,
    deleted_time timestamptz,
    deleted_by text collate "C"
) with (fillfactor = 80);
-- Names are unique among active resources of a kind: for children per owner, for roots per tenant. One
-- expression instead of columns, so that the planner never prefers this index for lists.
create unique index resources_active_name on resources
    ((kind || '/' || coalesce(owner_id::text, tenancy, '') || '/' || name))
    where deleted_time is null;
-- Lists in their default order: of a kind, of an owner's children, of all kinds, of what is being deleted.
create index resources_by_kind on resources (kind, created_time, id);
create index resources_by_owner on resources (owner_id, kind, created_time, id) where owner_id is not null;
create index resources_by_creation on resources (created_time, id);
create index resources_finalizing on resources (kind, created_time, id) where deleted_time is not null;
-- Searches by name, and lists ordered by it.
create index resources_by_name on resources (kind, name, id);

-- What aggregation writes, apart from `resources` so that a report rewrites little. A foreign key would double
-- the cost of an insert and guard nothing: rows come and go in the transaction of their resource.
--   last_updated_times  of each condition, in microseconds and in order, if later than `conditions` says
--   report_times        of required adapters by name, in microseconds, if later than their rows in `reports`
--                       say: a report that only confirms writes this row alone
--   updated_after       at most a minute before the oldest last_updated_time; it moves once a minute at most
--   pending_since       null while the resource is reconciled
-- Half of a page stays free because conditions grow to more than twice their first size. The TOAST target
-- keeps rows of a few kilobytes uncompressed.
create table resource_status (
    resource_id uuid primary key,
    version bigint not null,
    pending_since timestamptz,
    updated_after timestamptz,
    tenancy text collate "C",
    conditions text not null,
    last_updated_times bigint[] not null default '{}',
    report_times jsonb
) with (fillfactor = 50, toast_tuple_target = 8160);
-- The metrics of pending resources. Reports that leave Reconciled as it is do not touch it.
create index resource_status_pending on resource_status (pending_since) where pending_since is not null;
-- Searches for conditions that were not updated since some time.
create index resource_status_stale on resource_status (updated_after);

-- The references of `resources.refs`, to find the sources of a target.
create table resource_references (
    source_id uuid not null references resources (id) on delete cascade,
    ref_type text collate "C" not null,
    target_id uuid not null references resources (id),
    primary key (source_id, ref_type, target_id)
);
-- Searches by reference, and deletions that must wait for referrers.
create index resource_references_by_target on resource_references (target_id, ref_type);

-- One row per resource and adapter. Aggregation reads the columns before `bytes`, the size of the report
-- before compression, which bounds the reports on a resource; `body` is the compressed conditions, data and metadata
-- (codec/compression.rs).
create table reports (
    resource_id uuid not null,
    adapter text collate "C" not null,
    observed_generation bigint not null,
    last_report_time timestamptz not null,
    created_time timestamptz not null,
    finalized boolean not null,
    available text not null,
    reason text not null,
    message text not null,
    bytes bigint not null,
    body bytea not null,
    primary key (resource_id, adapter)
) with (fillfactor = 90, toast_tuple_target = 8160);
alter table reports alter column body set storage external;

-- History: one row per version. It outlives `resources`, hence its own kind and tenancy.
--   entry_count    of the timeline, so that entries are counted without decompressing them
--   touched_parts  a bit per part of the resource, so that undo skips changes of other parts
--   body           the compressed entries, the undo, and for the last change the whole resource
create table changes (
    version bigint primary key,
    resource_id uuid not null,
    changed_time timestamptz not null,
    entry_count integer not null,
    touched_parts integer not null,
    kind text collate "C" not null,
    tenancy text collate "C",
    actor text not null,
    request_id text not null,
    body bytea not null
);
alter table changes alter column body set storage external;
-- Timelines, past states and watches.
create index changes_by_resource on changes (resource_id, version);

-- One row: the newest version that was pruned. A watch from an older version must list again.
create table history (
    singleton boolean primary key default true check (singleton),
    pruned_version bigint not null
);
insert into history (pruned_version) values (0);

-- How many resources there are per kind. Every commit maintains it, because counting would read the kind.
create table kind_counts (
    kind text collate "C" primary key,
    active bigint not null,
    finalizing bigint not null,
    pending_active bigint not null,
    pending_finalizing bigint not null
);

-- Search by label, and by the status of a condition, in the order of lists. A facet is the first half of the
-- SHA-256 of kind, name and value. Reports that change no status do not touch it.
create table resource_facets (
    facet uuid not null,
    created_time timestamptz not null,
    resource_id uuid not null,
    primary key (facet, created_time, resource_id)
);

-- How many resources have a facet, maintained like kind_counts.
create table facet_counts (
    facet uuid primary key,
    active bigint not null,
    finalizing bigint not null
) with (fillfactor = 70);

-- The settings by which the conditions of a kind were computed, and when to check them again: during a rolling
-- update replicas with the settings of before may still write.
create table aggregations (
    kind text collate "C" primary key,
    settings text not null,
    recheck_time timestamptz
);

-- Answers to requests with an Idempotency-Key. `key` is a fingerprint of caller, path and key; `request` of the
-- request's body.
create table idempotency_records (
    key bytea primary key,
    request bytea not null,
    created_time timestamptz not null,
    response text not null
);
-- Pruning.
create index idempotency_records_by_age on idempotency_records (created_time);

-- Leases of adapters and of parts of the system. `tenancy` is empty for the latter and without tenants. Expired
-- leases stay for a while so that the next holder gets a later version.
create table leases (
    tenancy text collate "C" not null,
    group_name text collate "C" not null,
    name text collate "C" not null,
    holder text not null,
    expires timestamptz not null,
    version bigint not null,
    primary key (tenancy, group_name, name)
) with (fillfactor = 50);
-- Pruning.
create index leases_by_expiry on leases (expires);

-- Secrets that all replicas share, such as the key of page tokens.
create table secrets (
    name text primary key,
    value bytea not null
);

-- A number of any size as a text that sorts like the number, as Decimal::sort_key makes it.
create function search_number(number text) returns text
language plpgsql immutable strict parallel safe as $$
declare
    far constant numeric := 1298074214633706907132624082305024;
    bias constant numeric := 5192296858534827628530496329220096;
    parts constant text[] := regexp_match(number, '^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]*))?$');
    fraction constant text := coalesce(parts[3], '');
    written constant text := coalesce(parts[5], '');
    digits text := parts[2] || fraction;
    significant constant text := rtrim(digits, '0');
    exponent numeric := case when length(written) > 36 then far else least(('0' || written)::numeric, far) end;
    key text;
begin
    if parts[4] = '-' then
        exponent := -exponent;
    end if;
    exponent := exponent - length(fraction) + length(digits) - length(significant);
    digits := ltrim(significant, '0');
    if digits = '' then
        return '1';
    end if;
    key := lpad((exponent + length(digits) + bias)::text, 35, '0') || digits;
    if parts[1] = '-' then
        return '0' || translate(key, '0123456789', '9876543210') || '~';
    end if;
    return '2' || key;
end
$$;

-- The value at a path of a spec if it has the wanted type: a string as it is, a number as its sort key, a boolean
-- as 'true' or 'false'. With 'any', the type of a value that is not null. Elements of lists are counted from 0.
create function search_spec(spec text, path text[], wanted text) returns text
language plpgsql immutable strict parallel safe as $$
declare
    value json := spec::json;
    segment text;
    type text;
begin
    foreach segment in array path loop
        type := json_typeof(value);
        if type = 'object' then
            value := value -> segment;
        elsif type = 'array' and segment ~ '^(0|[1-9][0-9]{0,9})$' and segment::bigint <= 2147483647 then
            value := value -> segment::int;
        else
            return null;
        end if;
    end loop;
    type := json_typeof(value);
    if type = 'null' then
        return null;
    elsif wanted = 'any' then
        return type;
    elsif type <> wanted then
        return null;
    elsif type = 'number' then
        return search_number(value #>> '{}');
    end if;
    return value #>> '{}';
end
$$;

-- Conditions as JSON: a control character stands for each of these texts, as codec/conditions.rs writes them.
create function conditions_json(stored text) returns json
language sql immutable strict parallel safe as $$
    select replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(stored,
        E'\x0e', '","status":"True","reason":"ReconciledAll","message":"All required adapters reported Available=True or Finalized=True at the current generation","observed_generation":'),
        E'\x0f', '","status":"True","reason":"AllAdaptersReconciled","message":"All required adapters report Available=True for the tracked generation","observed_generation":'),
        E'\x10', '","status":"False","reason":"AdaptersMissingReports","message":"Required adapters have not yet reported status","observed_generation":'),
        E'\x01', '"},{"type":"'),
        E'\x02', '","status":"True","reason":"'),
        E'\x03', '","status":"False","reason":"'),
        E'\x04', '","message":"'),
        E'\x05', '","observed_generation":'),
        E'\x06', '"created_time":"'),
        E'\x07', '","last_updated_time":"'),
        E'\x08', '","last_transition_time":"')::json
$$;

-- A member of the condition of this type.
create function search_condition(conditions text, wanted text, member text) returns text
language sql immutable strict parallel safe as $$
    select c ->> member from json_array_elements(conditions_json(conditions)) c where c ->> 'type' = wanted limit 1
$$;

-- The same for its times, in microseconds. The year 0 of RFC 3339 is 1 BC to PostgreSQL.
create function search_condition_time(conditions text, last_updated_times bigint[], wanted text, member text)
returns bigint
language sql stable strict parallel safe as $$
    select case
        when member = 'last_updated_time' and n <= cardinality(last_updated_times) then last_updated_times[n]
        else (extract(epoch from regexp_replace(c ->> member, '^0000-(.*)', '0001-\1 BC')::timestamptz) * 1000000)::bigint
        end
    from json_array_elements(conditions_json(conditions)) with ordinality e (c, n)
    where c ->> 'type' = wanted limit 1
$$;
