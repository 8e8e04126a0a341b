-- Kernels that are slower on some ranks than on others
--
-- Rows have the mean duration on the fastest and on the slowest rank, and are sorted by the total
-- time lost. Kernels in which ranks wait for each other are left out, because they take the longest
-- on the fastest ranks.
with of_rank as (
  select name, rank, cast(sum(n) as bigint) as calls, cast(sum(o.sum) as bigint) as total_ns
  from ops o
  where category = 'kernel' and coalesce(work, '') <> 'communication'
  group by name, rank
),
means as (
  select name, rank, calls, total_ns, total_ns / cast(calls as double) as mean_ns from of_rank
),
placed as (
  select name, rank, calls, total_ns, mean_ns, min(mean_ns) over (partition by name) as fastest_ns,
    row_number() over (partition by name order by mean_ns desc, rank) as place
  from means
),
sums as (
  select name, count(*) as ranks, cast(sum(calls) as bigint) as calls, cast(sum(total_ns) as bigint) as total_ns,
    min(fastest_ns) as fastest_mean_ns, max(mean_ns) as slowest_mean_ns,
    max(case when place = 1 then rank end) as slowest_rank
  from placed
  group by name
)
select name, ranks, calls, total_ns, fastest_mean_ns, slowest_mean_ns, slowest_rank,
  total_ns - fastest_mean_ns * calls as lost_ns
from sums
order by lost_ns desc, name
