-- What a change tells and what an adapter reports, as one short value (packed.rs). Rows from before this step keep their
-- texts in the columns that are empty from here on: changes until they are too old, reports until they say something
-- new. What is packed is not worth another try of PostgreSQL's.
alter table changes add column packed bytea;
alter table changes alter column packed set storage external;
alter table changes alter column entries set default '';
alter table reports add column packed bytea;
alter table reports alter column packed set storage external;
alter table reports alter column conditions set default '';

-- Smaller rows need less room beside them: it takes a few reports, and one or two new rows of conditions.
alter table reports set (fillfactor = 90);
alter table resource_status set (fillfactor = 85);

-- Conditions without the names of their members (shorthand.rs): each begins with \x01, and \x02 stands between its type,
-- status, reason, message, generation, and the times at which it appeared, was confirmed and turned; the last is empty
-- if it is the one before it. Rows from before this step hold JSON. These find what a condition says in either.
create function search_said(conditions text, wanted text) returns text[]
language sql immutable strict parallel safe as $$
    select case strpos(conditions, E'\x01' || wanted || E'\x02') when 0 then null else
        string_to_array(
            split_part(substr(conditions, strpos(conditions, E'\x01' || wanted || E'\x02') + 1), E'\x01', 1), E'\x02')
        end
$$;

-- A reason or a message: as JSON has it between quotes, or a letter for one that many have.
create function search_word(kept text) returns text
language sql immutable strict parallel safe as $$
    select case kept
        when E'\x0e' then 'ReconciledAll'
        when E'\x0f' then 'All required adapters reported Available=True or Finalized=True at the current generation'
        when E'\x10' then 'AllAdaptersReconciled'
        when E'\x11' then 'All required adapters report Available=True for the tracked generation'
        when E'\x12' then 'AdaptersMissingReports'
        when E'\x13' then 'Required adapters have not yet reported status'
        when E'\x14' then 'ReconciledMissingAdapters'
        else case when strpos(kept, '\') > 0 then ('"' || kept || '"')::json #>> '{}' else kept end
    end
$$;

create or replace function search_condition(conditions text, wanted text, part text) returns text
language plpgsql immutable strict parallel safe as $$
declare
    said text[];
begin
    if left(conditions, 1) <> E'\x01' then
        return (select c ->> part from json_array_elements(conditions::json) c where c ->> 'type' = wanted limit 1);
    end if;
    said := search_said(conditions, wanted);
    return case part
        when 'status' then said[2]
        when 'reason' then search_word(said[3])
        when 'message' then search_word(said[4])
        when 'observed_generation' then said[5]
    end;
end
$$;

create or replace function search_condition_time(conditions text, refreshed bigint[], wanted text, part text)
returns bigint
language plpgsql stable strict parallel safe as $$
declare
    said text[];
    before text;
    place integer;
    printed text;
begin
    if left(conditions, 1) <> E'\x01' then
        select n, c ->> part into place, printed
        from json_array_elements(conditions::json) with ordinality e (c, n)
        where c ->> 'type' = wanted limit 1;
    else
        said := search_said(conditions, wanted);
        if said is null then
            return null;
        end if;
        before := left(conditions, strpos(conditions, E'\x01' || wanted || E'\x02'));
        place := length(before) - length(replace(before, E'\x01', ''));
        printed := case when part = 'last_transition_time' and said[8] <> '' then said[8] else said[7] end;
    end if;
    if part = 'last_updated_time' and place <= cardinality(refreshed) then
        return refreshed[place];
    end if;
    return (extract(epoch from regexp_replace(printed, '^0000-(.*)', '0001-\1 BC')::timestamptz) * 1000000)::bigint;
end
$$;
