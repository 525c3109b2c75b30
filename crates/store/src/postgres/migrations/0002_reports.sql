-- What adapters say: one row per resource and adapter. The columns before the JSON are what aggregation
-- looks at, so that nothing has to be parsed for the adapters that did not report. Rows come and go in the
-- transaction of their resource, as those of resource_status do. Room beside a row keeps its updates off
-- the index; the target keeps rows of a few kilobytes whole instead of compressing them at every report.
create table reports (
    resource_id uuid not null,
    adapter text collate "C" not null,
    observed_generation bigint not null,
    last_report_time timestamptz not null,
    available text not null,
    finalized boolean not null,
    reason text not null,
    message text not null,
    created_time timestamptz not null,
    conditions text not null,
    data text not null,
    metadata text,
    primary key (resource_id, adapter)
) with (fillfactor = 60, toast_tuple_target = 8160);

-- `refreshed` holds the last_updated_time of each condition in microseconds, in order, since a report moved
-- nothing else; empty while those in `conditions` are the true ones. `pending_since` is null while the world
-- matches the wish.
alter table resource_status
    add column refreshed bigint[] not null default '{}',
    add column pending_since timestamptz;
alter table resource_status set (fillfactor = 60, toast_tuple_target = 8160);
update resource_status
set pending_since = (conditions::json -> 0 ->> 'last_transition_time')::timestamptz
where conditions::json -> 0 ->> 'status' = 'False';
-- Whatever waits, the longest first. No report that leaves Reconciled as it is touches this index.
create index resource_status_pending on resource_status (pending_since) where pending_since is not null;

-- How many of them wait, kept like the numbers beside them.
alter table kind_counts
    add column pending_active bigint not null default 0,
    add column pending_finalizing bigint not null default 0;
update kind_counts k
set pending_active = n.active, pending_finalizing = n.finalizing
from (
    select r.kind, count(*) filter (where r.deleted_time is null) as active,
           count(*) filter (where r.deleted_time is not null) as finalizing
    from resources r join resource_status s on s.resource_id = r.id
    where s.pending_since is not null
    group by r.kind
) n
where n.kind = k.kind;

-- By which settings the conditions of a kind were computed. A start with others computes them anew, and once
-- more later, because a replica with the old settings may have written meanwhile.
create table aggregations (
    kind text collate "C" primary key,
    basis text not null,
    look_again_at timestamptz
);

-- Grows with every commit, also with those that only move times and take no version. A writer that finds
-- both numbers as it left them knows that nobody else has written since.
alter table feed add column commits bigint not null default 0;
