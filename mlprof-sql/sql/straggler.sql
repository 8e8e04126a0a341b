-- Ranks that delay the others, with the phase and the delay; empty if all ranks are healthy
--
-- The method is that of `mlprof analyze`. It compares the ranks' own work, without the phases in
-- which ranks wait for each other, over the steps that all ranks recorded. A rank is slow if its
-- median over at least three steps is more than a tenth above that of the median rank, and if at
-- least three quarters of its steps are more than a twentieth above the median rank's step. With
-- more than two ranks, it must also be an outlier: 0.6745 * distance / MAD above 3.5.
with world as (
  select count(distinct rank) as ranks from ranks
),
phase as (
  select coalesce(stage, '') as stage, step, rank, ord, phase, waits, cast(sum(dur) as bigint) as dur
  from phases
  group by coalesce(stage, ''), step, rank, ord, phase, waits
),
there as (
  select stage, step, count(distinct rank) as ranks from phase group by stage, step
),
common as (
  select t.stage, t.step from there t join world w on t.ranks = w.ranks where w.ranks > 1
),
own as (
  select p.stage, p.step, p.rank, cast(sum(case when p.waits = 0 then p.dur else 0 end) as bigint) as own
  from phase p join common c on p.stage = c.stage and p.step = c.step
  group by p.stage, p.step, p.rank
),
-- Among an even number of values, the median is the smaller of the two in the middle.
own_of_step as (
  select stage, step, own, row_number() over (partition by stage, step order by own) as place,
    count(*) over (partition by stage, step) as n
  from own
),
usual_of_step as (
  select stage, step, own as usual from own_of_step where 2 * place = n or 2 * place = n + 1
),
own_of_rank as (
  select rank, own, row_number() over (partition by rank order by own) as place,
    count(*) over (partition by rank) as n
  from own
),
middle_of_rank as (
  select rank, own, n as steps from own_of_rank where 2 * place = n or 2 * place = n + 1
),
middles as (
  select own, row_number() over (order by own) as place, count(*) over () as n from middle_of_rank
),
usual as (
  select own as usual, n as ranks from middles where 2 * place = n or 2 * place = n + 1
),
distances as (
  select m.rank, m.own, m.steps, u.usual, u.ranks, abs(m.own - u.usual) as distance,
    row_number() over (order by abs(m.own - u.usual)) as place
  from middle_of_rank m cross join usual u
),
deviation as (
  select distance as deviation from distances where 2 * place = ranks or 2 * place = ranks + 1
),
longer as (
  select o.rank, cast(sum(case when o.own > u.usual then o.own - u.usual else 0 end) as bigint) as longer_ns,
    cast(sum(case when o.own > u.usual * 1.05e0 then 1 else 0 end) as bigint) as often
  from own o join usual_of_step u on o.stage = u.stage and o.step = u.step
  group by o.rank
),
slow as (
  select d.rank, d.own as own_ns, d.usual as usual_ns, l.longer_ns
  from distances d cross join deviation v join longer l on d.rank = l.rank
  where d.steps >= 3 and d.own - d.usual > 0.1e0 * d.usual and l.often >= 0.75e0 * d.steps
    and (d.ranks < 3 or 0.6745e0 * (d.own - d.usual) > 3.5e0 * v.deviation)
),
-- The phase in which the rank's median excess over the median rank is the largest.
dur_of_phase as (
  select p.stage, p.step, p.ord, p.phase, p.rank, p.dur,
    row_number() over (partition by p.stage, p.step, p.ord order by p.dur) as place,
    count(*) over (partition by p.stage, p.step, p.ord) as n
  from phase p join common c on p.stage = c.stage and p.step = c.step
  where p.waits = 0
),
usual_of_phase as (
  select stage, step, ord, dur as usual from dur_of_phase where 2 * place = n or 2 * place = n + 1
),
longer_in_phase as (
  select d.rank, d.ord, d.phase, d.dur - u.usual as longer,
    row_number() over (partition by d.rank, d.ord order by d.dur - u.usual) as place,
    count(*) over (partition by d.rank, d.ord) as n
  from dur_of_phase d join usual_of_phase u on d.stage = u.stage and d.step = u.step and d.ord = u.ord
),
worst as (
  select rank, phase, longer, row_number() over (partition by rank order by longer desc, ord) as place
  from longer_in_phase
  where 2 * place = n or 2 * place = n + 1
)
select s.rank, s.own_ns, s.usual_ns, w.phase, w.longer as phase_longer_ns, s.longer_ns
from slow s join worst w on s.rank = w.rank
where w.place = 1
order by s.own_ns desc, s.rank
