-- When required adapters reported last, by name, in microseconds since 1970, where that is later than their rows in reports
-- say. A report that says nothing new then writes one row instead of two, on one page that is logged whole after each
-- checkpoint instead of on two (moved.rs).
alter table resource_status add column moved jsonb;
