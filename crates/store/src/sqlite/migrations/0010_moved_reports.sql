-- Nothing: what this step saves is PostgreSQL's.
select 1;
