-- Who waits for whom in collectives? Without clocks: whoever comes last waits the least.
--
-- What each rank takes longer in a collective than the rank that takes the shortest time is waiting. times_last: how often
-- a rank was the one that all others waited for.
with called as (
  select s.rank, s.cycle, coalesce(r.stage, '') as stage, s.step, s.name, s.dur,
    row_number() over (partition by s.rank, s.cycle, s.step, s.name order by s.ts, s.id) as number
  from slices s join ranks r on s.rank = r.rank and s.cycle = r.cycle
  where s.step is not null and s.work = 'communication' and s.category in ('user_annotation', 'kernel')
),
met as (
  select stage, step, name, number, min(dur) as shortest, count(*) as ranks
  from called
  group by stage, step, name, number
  having count(*) > 1
)
select c.rank, c.name, count(*) as times, cast(sum(c.dur) as bigint) as total_ns,
  cast(sum(c.dur - m.shortest) as bigint) as waiting_ns,
  cast(sum(case when c.dur = m.shortest then 1 else 0 end) as bigint) as times_last
from called c
join met m on c.stage = m.stage and c.step = m.step and c.name = m.name and c.number = m.number
group by c.rank, c.name
order by waiting_ns, c.rank, c.name
