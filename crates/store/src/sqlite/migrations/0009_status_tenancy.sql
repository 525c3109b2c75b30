-- Nothing: what this step is for are policies, and SQLite has none.
select 1;
