-- When required adapters reported last, by name, in microseconds since 1970, as a JSON object, where that is later than
-- their rows in reports say. A report that says nothing new then writes one row instead of two, and every row is a page
-- that goes to the log and from there to the file (moved.rs).
alter table resource_status add column moved text;

-- Reports with the later of both times: whoever asks when an adapter reported reads this. Adapters may have any name, also
-- such as would be a path in JSON. This relies on the bundled SQLite, which compares quoted keys with their escapes
-- undone: version 3.40 finds nothing by a"b.
create view reported as
select r.resource_id, r.adapter, r.observed_generation,
       max(
           r.last_report_time,
           coalesce(json_extract(s.moved, '$.' || json_quote(r.adapter)), r.last_report_time)
       ) as last_report_time,
       r.available, r.finalized, r.reason, r.message, r.created_time, r.packed, r.conditions, r.data, r.metadata
from reports r left join resource_status s on s.resource_id = r.resource_id;
