-- Who waits for whom in collectives? Without clocks: whoever comes last waits the least.
--
-- What each rank takes longer in a collective than the rank that takes the shortest time is waiting. times_last: how often
-- a rank was the one that all others waited for; ranks that are level with others are not last.
with called as (
  select s.rank, s.cycle, coalesce(r.stage, '') as stage, s.step, s.name, s.dur,
    row_number() over (partition by s.rank, s.cycle, s.step, s.name order by s.ts, s.id) as number
  from slices s join ranks r on s.rank = r.rank and s.cycle = r.cycle
  where s.step is not null and s.work = 'communication' and s.category in ('user_annotation', 'kernel')
),
met as (
  select stage, cycle, step, name, number, min(dur) as shortest
  from called
  group by stage, cycle, step, name, number
  having count(distinct rank) > 1
),
waited as (
  select c.rank, c.name, c.dur, m.shortest,
    sum(case when c.dur = m.shortest then 1 else 0 end)
      over (partition by c.stage, c.cycle, c.step, c.name, c.number) as level
  from called c
  join met m on c.stage = m.stage and c.cycle = m.cycle and c.step = m.step and c.name = m.name and c.number = m.number
)
select rank, name, count(*) as times, cast(sum(dur) as bigint) as total_ns,
  cast(sum(dur - shortest) as bigint) as waiting_ns,
  cast(sum(case when dur = shortest and level = 1 then 1 else 0 end) as bigint) as times_last
from waited
group by rank, name
order by waiting_ns, rank, name
