-- Phases that delay the steps of all ranks, and the rank that most often finishes each phase last
--
-- The method is that of `mlprof analyze`, after StageFrontier (arXiv 2606.06751). The frontier of a
-- phase is the time in the step at which the last rank finishes it. The exposed time of a phase is
-- the distance between its frontier and the previous one. All phases add up exactly to the steps of
-- the slowest rank. A rank that waits for another one is not blamed, and clocks need not agree. A
-- single rank has no rows.
with world as (
  select count(distinct rank) as ranks from ranks
),
phase as (
  select coalesce(stage, '') as stage, step, rank, ord, phase, cast(sum(dur) as bigint) as dur
  from phases
  group by coalesce(stage, ''), step, rank, ord, phase
),
there as (
  select stage, step, count(distinct rank) as ranks from phase group by stage, step
),
common as (
  select t.stage, t.step from there t join world w on t.ranks = w.ranks where w.ranks > 1
),
through as (
  select p.stage, p.step, p.rank, p.ord, p.phase,
    cast(sum(p.dur) over (
      partition by p.stage, p.step, p.rank order by p.ord rows between unbounded preceding and current row
    ) as bigint) as through
  from phase p join common c on p.stage = c.stage and p.step = c.step
),
frontier as (
  select stage, step, ord, phase, max(through) as frontier from through group by stage, step, ord, phase
),
moved as (
  select ord, phase, frontier - coalesce(lag(frontier) over (partition by stage, step order by ord), 0) as exposed
  from frontier
),
-- In a tie, no rank is last.
last_of_step as (
  select t.ord, min(t.rank) as rank
  from through t
  join frontier f on t.stage = f.stage and t.step = f.step and t.ord = f.ord and t.through = f.frontier
  group by t.stage, t.step, t.ord
  having count(*) = 1
),
times_last as (
  select ord, rank, count(*) as times from last_of_step group by ord, rank
),
most_often as (
  select ord, rank, times, row_number() over (partition by ord order by times desc, rank) as place from times_last
),
sums as (
  select ord, phase, cast(sum(exposed) as bigint) as exposed_ns from moved group by ord, phase
),
length as (
  select sum(exposed_ns) as length_ns from sums
)
select s.phase, s.exposed_ns, case when l.length_ns > 0 then s.exposed_ns / cast(l.length_ns as double) else 0e0 end as share,
  m.rank as last_rank, m.times as times_last
from sums s cross join length l left join most_often m on s.ord = m.ord and m.place = 1
order by s.ord
