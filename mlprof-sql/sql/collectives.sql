-- Ranks that wait in collectives, and ranks that others wait for
--
-- The ranks' clocks need not agree, because the last rank waits the least. waiting_ns: time beyond
-- that of the fastest rank in the same collective. times_last: collectives that this rank alone
-- joined last; ties do not count. Kernels are matched by operation, group of ranks, and the step
-- that launched them. Collectives that some ranks leave before others join, such as a broadcast,
-- are not recognised.
with launch as (
  select rank, cycle, correlation, min(ts) as ts, min(step) as step
  from slices
  where category in ('cuda_runtime', 'cuda_driver') and correlation is not null
  group by rank, cycle, correlation
),
joined as (
  select s.rank, s.cycle, coalesce(r.stage, '') as stage, s.collective as name, s.id, s.ts, s.dur,
    case when s.category = 'kernel' and l.ts is not null then l.step else s.step end as step,
    case when s.category = 'kernel' and l.ts is not null then l.ts else s.ts end as launched
  from slices s
  join ranks r on s.rank = r.rank and s.cycle = r.cycle
  left join launch l on s.rank = l.rank and s.cycle = l.cycle and s.correlation = l.correlation
  where s.collective is not null
),
called as (
  select rank, cycle, stage, step, name, dur,
    row_number() over (partition by rank, cycle, step, name order by launched, ts, id) as number,
    count(*) over (partition by rank, cycle, step, name) as n
  from joined
  where step is not null
),
-- If ranks recorded different numbers of calls, the calls cannot be matched, so they are left out.
met as (
  select stage, cycle, step, name, number, n, min(dur) as shortest
  from called
  group by stage, cycle, step, name, number, n
  having count(distinct rank) > 1
),
waited as (
  select c.rank, c.name, c.dur, m.shortest,
    sum(case when c.dur = m.shortest then 1 else 0 end)
      over (partition by c.stage, c.cycle, c.step, c.name, c.number, c.n) as level
  from called c
  join met m on c.stage = m.stage and c.cycle = m.cycle and c.step = m.step and c.name = m.name and c.number = m.number
    and c.n = m.n
)
select rank, name, count(*) as times, cast(sum(dur) as bigint) as total_ns,
  cast(sum(dur - shortest) as bigint) as waiting_ns,
  cast(sum(case when dur = shortest and level = 1 then 1 else 0 end) as bigint) as times_last
from waited
group by rank, name
order by waiting_ns, rank, name
