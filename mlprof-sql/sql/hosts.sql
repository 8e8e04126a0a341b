-- Is it the machine? The own work of ranks, machine by machine, the slowest first.
with own as (
  select rank, coalesce(stage, '') as stage, step, cast(sum(case when waits = 0 then dur else 0 end) as bigint) as own
  from phases
  group by rank, coalesce(stage, ''), step
),
hosts as (
  select rank, max(host) as host from ranks group by rank
),
placed as (
  select h.host, o.rank, o.own, row_number() over (partition by h.host order by o.own) as place,
    count(*) over (partition by h.host) as n
  from own o join hosts h on o.rank = h.rank
)
select host, count(distinct rank) as ranks, max(n) as steps, min(own) as shortest_ns,
  max(case when 2 * place = n or 2 * place = n + 1 then own end) as median_ns, max(own) as longest_ns
from placed
group by host
order by median_ns desc, host
