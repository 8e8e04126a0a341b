-- Recorded data and missing data by rank
--
-- world_size: how many ranks there should be; there: of how many something is recorded.
with there as (
  select count(distinct rank) as there from ranks
),
counted as (
  select rank, cycle, count(distinct step) as steps from steps group by rank, cycle
)
select r.rank, r.cycle, r.host, r.stage, r.world_size, t.there, coalesce(c.steps, 0) as steps, r.dropped, r.not_understood, r.cut_short
from ranks r cross join there t left join counted c on r.rank = c.rank and r.cycle = c.cycle
order by r.rank, r.cycle
