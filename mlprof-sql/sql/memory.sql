-- Peak of the memory usage, by rank
--
-- Each counter of memory in bytes has a row with its peak, the time at which it was first reached,
-- and the step, if a step was running. Other counters, such as utilization, power and clocks, are
-- left out.
with memory as (
  select rank, cycle, upid, name, ts, value, id
  from counters
  where right(name, 7) = '(bytes)' or right(name, 1) <> ')' and (
    lower(name) like '%memory%' or lower(name) like '%allocated%' or lower(name) like '%reserved%')
),
placed as (
  select rank, cycle, upid, name, ts, value,
    row_number() over (partition by rank, cycle, upid, name order by value desc, ts, id) as place
  from memory
),
-- Among overlapping parts of steps on several threads, the one that began last counts.
in_step as (
  select c.rank, c.cycle, c.upid, c.name, s.step, c.ts, s.ts + s.dur as ends,
    row_number() over (partition by c.rank, c.cycle, c.upid, c.name order by s.ts desc, s.ts + s.dur desc, s.step desc) as place
  from placed c join step_parts s on c.rank = s.rank and c.cycle = s.cycle and c.ts >= s.ts
  where c.place = 1
)
select c.rank, c.cycle, p.name as process, p.labels, c.name, c.value as peak, c.ts, s.step
from placed c
left join processes p on c.rank = p.rank and c.cycle = p.cycle and c.upid = p.upid
left join in_step s on c.rank = s.rank and c.cycle = s.cycle and c.upid = s.upid and c.name = s.name
  and s.place = 1 and c.ts < s.ends
where c.place = 1
order by c.value desc, c.rank, c.cycle, c.name
