-- Total time of ops, actions and kernels in all ranks and steps
--
-- self_ns: time without directly nested ops. The query reads the table of sums, which is small
-- enough to be kept for every run.
select o.category, o.name, cast(sum(o.n) as bigint) as calls, cast(sum(o.sum) as bigint) as total_ns,
  cast(sum(o.self) as bigint) as self_ns, min(o.min) as shortest_ns, max(o.max) as longest_ns,
  count(distinct o.rank) as ranks
from ops o
group by o.category, o.name
order by self_ns desc, o.category, o.name
