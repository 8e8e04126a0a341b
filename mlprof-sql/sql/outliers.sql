-- Steps that are much longer than the other steps of their rank and stage
--
-- The method is that of `mlprof analyze` for one file, applied to all cycles of a rank. A step is
-- an outlier if 0.6745 * distance from the median / MAD exceeds 3.5. The MAD is at least one
-- percent of the median. A stage needs at least five steps.
with step_of_rank as (
  select rank, cycle, coalesce(stage, '') as stage, step, cast(sum(dur) as bigint) as dur
  from steps
  group by rank, cycle, coalesce(stage, ''), step
),
placed as (
  select rank, cycle, stage, step, dur, row_number() over (partition by rank, stage order by dur) as place,
    count(*) over (partition by rank, stage) as n
  from step_of_rank
),
middle as (
  select rank, stage, cast(floor(avg(dur) + 0.5e0) as bigint) as median, max(n) as n
  from placed
  where n >= 5 and 2 * place between n and n + 2
  group by rank, stage
),
distances as (
  select p.rank, p.cycle, p.stage, p.step, p.dur, m.median, m.n, abs(p.dur - m.median) as distance,
    row_number() over (partition by p.rank, p.stage order by abs(p.dur - m.median)) as place
  from placed p join middle m on p.rank = m.rank and p.stage = m.stage
),
deviation as (
  select rank, stage, cast(floor(avg(distance) + 0.5e0) as bigint) as mad
  from distances
  where 2 * place between n and n + 2
  group by rank, stage
),
scores as (
  select d.rank, d.cycle, d.step, d.dur as dur_ns, d.median as median_ns,
    0.6745e0 * (d.dur - d.median) / greatest(cast(v.mad as double), 0.01e0 * d.median, 1e0) as score
  from distances d join deviation v on d.rank = v.rank and d.stage = v.stage
)
select rank, cycle, step, dur_ns, median_ns, score
from scores
where score > 3.5e0
order by dur_ns desc, rank, cycle, step
