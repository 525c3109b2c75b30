-- What a resource can be found by without reading it: each of its labels and the status of each of its
-- conditions, as a fingerprint of kind, name and value (the first half of a SHA-256), in the order of lists.
-- A row changes when a label does or a status turns, never when a report only confirms.
create table resource_facets (
    facet blob not null,
    created_time integer not null,
    resource_id text not null,
    primary key (facet, created_time, resource_id)
) without rowid;
insert into resource_facets (facet, created_time, resource_id)
select facet(r.kind, 'label', l.key, l.value), r.created_time, r.id
from resources r, json_each(r.labels) l;
insert into resource_facets (facet, created_time, resource_id)
select facet(r.kind, 'condition', json_extract(c.value, '$.type'), json_extract(c.value, '$.status')),
       r.created_time, r.id
from resources r join resource_status s on s.resource_id = r.id, json_each(s.conditions) c;

-- How many resources have a facet, kept like kind_counts: a page of a search shows its total without counting.
create table facet_counts (
    facet blob primary key not null,
    active integer not null,
    finalizing integer not null
) without rowid;
insert into facet_counts (facet, active, finalizing)
select f.facet, sum(r.deleted_time is null), sum(r.deleted_time is not null)
from resource_facets f join resources r on r.id = f.resource_id
group by f.facet;

-- A moment up to a minute before the oldest last_updated_time of the conditions. Whoever asks for conditions that
-- were not confirmed since some time looks here first. It moves once a minute at most, so that most reports leave
-- the index alone.
alter table resource_status add column confirmed_after integer;
update resource_status
set confirmed_after = (
    select unixepoch(substr(at, 1, 19)) * 1000000 + cast(substr(at, 21, 6) as integer)
    from (select min(json_extract(value, '$.last_updated_time')) as at from json_each(conditions))
);
create index resource_status_confirmed on resource_status (confirmed_after);

create index resources_by_name on resources (kind, name, id);
create index resources_finalizing on resources (kind, created_time, id) where deleted_time is not null;

-- Secrets that all processes share, such as the one that page tokens are signed with.
create table secrets (
    name text primary key not null,
    value blob not null
);
