-- What adapters say: one row per resource and adapter. The columns before the JSON are what aggregation
-- looks at, so that nothing has to be parsed for the adapters that did not report.
create table reports (
    resource_id text not null,
    adapter text not null,
    observed_generation integer not null,
    last_report_time integer not null,
    available text not null,
    finalized integer not null,
    reason text not null,
    message text not null,
    created_time integer not null,
    conditions text not null,
    data text not null,
    metadata text,
    primary key (resource_id, adapter)
);

-- `refreshed` holds the last_updated_time of each condition in microseconds, in order, since a report moved
-- nothing else; empty while those in `conditions` are the true ones. `pending_since` is null while the world
-- matches the wish.
alter table resource_status add column refreshed text not null default '';
alter table resource_status add column pending_since integer;
update resource_status
set pending_since = (
    select unixepoch(substr(at, 1, 19)) * 1000000 + cast(substr(at, 21, 6) as integer)
    from (select json_extract(conditions, '$[0].last_transition_time') as at)
)
where json_extract(conditions, '$[0].status') = 'False';
-- Whatever waits, the longest first. No report that leaves Reconciled as it is touches this index.
create index resource_status_pending on resource_status (pending_since) where pending_since is not null;

-- How many of them wait, kept like the numbers beside them.
alter table kind_counts add column pending_active integer not null default 0;
alter table kind_counts add column pending_finalizing integer not null default 0;
update kind_counts
set pending_active = (
        select count(*) from resources r join resource_status s on s.resource_id = r.id
        where r.kind = kind_counts.kind and r.deleted_time is null and s.pending_since is not null
    ),
    pending_finalizing = (
        select count(*) from resources r join resource_status s on s.resource_id = r.id
        where r.kind = kind_counts.kind and r.deleted_time is not null and s.pending_since is not null
    );

-- By which settings the conditions of a kind were computed. A start with others computes them anew, and once
-- more later, because a replica with the old settings may have written meanwhile.
create table aggregations (
    kind text primary key not null,
    basis text not null,
    look_again_at integer
);

-- Grows with every commit, also with those that only move times and take no version. A writer that finds
-- both numbers as it left them knows that nobody else has written since.
alter table feed add column commits integer not null default 0;
