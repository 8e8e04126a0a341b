-- Own work of the ranks per step, by machine, sorted by the slowest rank of each machine
--
-- The median step of each rank counts. median_ns: value of the machine's median rank. If it is far
-- below slowest_ns, one rank is slow rather than the machine.
with own as (
  select rank, coalesce(stage, '') as stage, step, cast(sum(case when waits = 0 then dur else 0 end) as bigint) as own
  from phases
  group by rank, coalesce(stage, ''), step
),
hosts as (
  select rank, max(host) as host from ranks group by rank
),
counted as (
  select h.host, o.stage, o.step, min(o.own) as shortest, max(o.own) as longest
  from own o join hosts h on o.rank = h.rank
  group by h.host, o.stage, o.step
),
of_steps as (
  select host, count(*) as steps, min(shortest) as shortest_ns, max(longest) as longest_ns from counted group by host
),
placed as (
  select rank, own, row_number() over (partition by rank order by own) as place, count(*) over (partition by rank) as n
  from own
),
of_rank as (
  select h.host, p.rank, cast(floor(avg(p.own) + 0.5e0) as bigint) as own
  from placed p join hosts h on p.rank = h.rank
  where 2 * p.place between p.n and p.n + 2
  group by h.host, p.rank
),
middles as (
  select host, rank, own, row_number() over (partition by host order by own, rank) as place,
    count(*) over (partition by host) as n
  from of_rank
),
of_host as (
  select host, max(n) as ranks, cast(floor(avg(case when 2 * place between n and n + 2 then own end) + 0.5e0) as bigint) as median_ns,
    max(case when place = n then rank end) as slowest_rank, max(own) as slowest_ns
  from middles
  group by host
)
select o.host, o.ranks, s.steps, s.shortest_ns, o.median_ns, s.longest_ns, o.slowest_rank, o.slowest_ns
from of_host o join of_steps s on coalesce(o.host, '') = coalesce(s.host, '')
order by slowest_ns desc, median_ns desc, host
