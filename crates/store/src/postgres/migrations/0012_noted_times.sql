-- Nothing: PostgreSQL notes them since 0010_moved_reports.
select 1;
