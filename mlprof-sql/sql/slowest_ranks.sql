-- Own work of each rank and its machine, slowest rank first
--
-- Own work excludes the phases in which ranks wait for each other. own_ns: own work of the median
-- step. The rows include healthy ranks; the query `straggler` selects the slow ones.
with own as (
  select rank, coalesce(stage, '') as stage, step, cast(sum(case when waits = 0 then dur else 0 end) as bigint) as own,
    cast(sum(dur) as bigint) as dur
  from phases
  group by rank, coalesce(stage, ''), step
),
placed as (
  select rank, own, row_number() over (partition by rank order by own) as place, count(*) over (partition by rank) as n,
    sum(dur - own) over (partition by rank) as waiting
  from own
),
hosts as (
  select rank, max(host) as host from ranks group by rank
)
select p.rank, h.host, p.n as steps, p.own as own_ns, cast(p.waiting as bigint) as waiting_for_ranks_ns
from placed p join hosts h on p.rank = h.rank
where 2 * p.place = p.n or 2 * p.place = p.n + 1
order by p.own desc, p.rank
