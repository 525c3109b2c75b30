-- What a resource can be found by without reading it: each of its labels and the status of each of its
-- conditions, as a fingerprint of kind, name and value (the first half of a SHA-256), in the order of lists.
-- A row changes when a label does or a status turns, never when a report only confirms.
create table resource_facets (
    facet uuid not null,
    created_time timestamptz not null,
    resource_id uuid not null,
    primary key (facet, created_time, resource_id)
);
insert into resource_facets (facet, created_time, resource_id)
select encode(substring(sha256(
           convert_to(r.kind, 'UTF8') || '\x00'::bytea || f.family || '\x00'::bytea
           || convert_to(f.name, 'UTF8') || '\x00'::bytea || convert_to(f.value, 'UTF8')) for 16), 'hex')::uuid,
       r.created_time, r.id
from resources r
join resource_status s on s.resource_id = r.id
cross join lateral (
    select 'label'::bytea, key, value from json_each_text(r.labels::json)
    union all
    select 'condition'::bytea, c ->> 'type', c ->> 'status' from json_array_elements(s.conditions::json) c
) f (family, name, value);

-- How many resources have a facet, kept like kind_counts: a page of a search shows its total without counting.
create table facet_counts (
    facet uuid primary key,
    active bigint not null,
    finalizing bigint not null
) with (fillfactor = 70);
insert into facet_counts (facet, active, finalizing)
select f.facet, count(*) filter (where r.deleted_time is null), count(*) filter (where r.deleted_time is not null)
from resource_facets f join resources r on r.id = f.resource_id
group by f.facet;

-- A moment up to a minute before the oldest last_updated_time of the conditions. Whoever asks for conditions that
-- were not confirmed since some time looks here first. It moves once a minute at most, so that most reports leave
-- the index alone.
alter table resource_status add column confirmed_after timestamptz;
update resource_status
set confirmed_after = (
    select regexp_replace(min(c ->> 'last_updated_time'), '^0000-(.*)', '0001-\1 BC')::timestamptz
    from json_array_elements(conditions::json) c
);
create index resource_status_confirmed on resource_status (confirmed_after);

create index resources_by_name on resources (kind, name, id);
create index resources_finalizing on resources (kind, created_time, id) where deleted_time is not null;

-- Secrets that all replicas share, such as the one that page tokens are signed with.
create table secrets (
    name text primary key,
    value bytea not null
);

-- A number of any size as a text that sorts as the number does. The server makes the same of the numbers in a
-- query (Decimal::sort_key).
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

-- The value at a path below a spec, if it is of this type: a text as it is, a number as its sort key, a boolean
-- as 'true' or 'false', 'any' for whatever is not null. Lists have elements by number only, counted from 0.
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

-- A part of the condition of this type.
create function search_condition(conditions text, wanted text, part text) returns text
language sql immutable strict parallel safe as $$
    select c ->> part from json_array_elements(conditions::json) c where c ->> 'type' = wanted limit 1
$$;

-- The same for its times, in microseconds. What is the year 0 elsewhere is 1 BC to PostgreSQL.
create function search_condition_time(conditions text, refreshed bigint[], wanted text, part text) returns bigint
language sql stable strict parallel safe as $$
    select case when part = 'last_updated_time' and n <= cardinality(refreshed) then refreshed[n]
           else (extract(epoch from regexp_replace(c ->> part, '^0000-(.*)', '0001-\1 BC')::timestamptz) * 1000000)::bigint
           end
    from json_array_elements(conditions::json) with ordinality e (c, n)
    where c ->> 'type' = wanted limit 1
$$;
