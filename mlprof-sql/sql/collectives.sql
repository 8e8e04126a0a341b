-- Waiting in collectives by rank; needs no clocks, because the last rank waits the least
--
-- What each rank takes longer in a collective than the rank that takes the shortest time is waiting. times_last: how often
-- a rank was the one that all others waited for; ranks that are level with others are not last. Kernels are told apart by
-- their operation and its group of ranks, and by the step that launched them. Of operations that some ranks leave before
-- others join, such as a broadcast, nothing is known.
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
-- Where ranks disagree on how many there are, nothing tells which of them belong together.
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
