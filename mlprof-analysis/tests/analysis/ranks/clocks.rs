//! Clock offsets of synthetic ranks, compared with their true values.

use mlprof_analysis::ranks::{Method, Offset, Ranks};

use super::rank_files::{ALL_REDUCE, File, LAUNCH, merged, ranks};

const MS: i64 = 1_000_000;

/// Returns a rank with steps of 1 ms that launch `reductions` all-reduces each. These end at the
/// same moments on all ranks.
///
/// The host is `ahead` steps ahead of the others, so work that runs in step n was launched that
/// much earlier. Launches before the trace are omitted.
fn ahead(rank: u32, ahead: u64, reductions: i64) -> File {
    let mut file = File::of(rank, 2);
    let mut correlation = 0;
    for n in 0..6_u64 {
        let start = n as i64 * MS;
        file.step(n + ahead, start, MS);
        for reduction in 0..reductions {
            correlation += 1;
            let end = start + 700_000 + reduction * 60_000;
            let began = end - 20_000 - 10_000 * i64::from(rank);
            file.kernel(ALL_REDUCE, 24, (began, end), correlation, "");
            let launched = start + 500_000 + reduction * 20_000 - ahead as i64 * MS;
            if launched >= 0 {
                file.call(LAUNCH, launched, 5_000, correlation);
            }
        }
    }
    file
}

fn found(ranks: &Ranks) -> Vec<(i64, Option<i64>, Method, usize)> {
    let of =
        |offset: &Offset| (offset.nanoseconds, offset.error_ns, offset.method, offset.meetings);
    ranks.files.iter().map(|file| of(&file.offset)).collect()
}

#[test]
fn hosts_that_run_ahead_by_whole_steps_move_no_clock() {
    for (steps, reductions) in [(1, 1), (1, 3), (2, 2), (3, 1)] {
        let found = found(&ranks(&[ahead(0, 0, reductions), ahead(1, steps, reductions)]));
        let met = (6 - steps) as usize * reductions as usize;
        let right = (0, Some(0), Method::Collectives, met);
        assert_eq!(found[1], right, "{steps} steps ahead, {reductions} all-reduces");
    }
}

/// Checks traces without launches, in which the first all-reduce cannot be identified. The
/// uncertainty must cover a shift by one collective.
#[test]
fn without_launches_the_error_covers_a_shift_by_a_collective() {
    let without = |rank: u32, by: u64| {
        let mut file = File::of(rank, 2);
        for n in 0..6 {
            file.step(n + by, n as i64 * MS, MS);
            let end = n as i64 * MS + 700_000;
            file.kernel(ALL_REDUCE, 24, (end - 20_000, end), 0, "");
        }
        file
    };
    let found = found(&ranks(&[without(0, 0), without(1, 1)]));
    assert_eq!(found[1], (0, Some(MS), Method::Collectives, 6));
}

/// Returns a cycle of a rank with numbered collectives. The wall clock of rank 1's machine is 5 ms
/// behind.
fn cycle(rank: u32, cycle: u64, has_machine: bool) -> File {
    let mut file = File::of(rank, 2);
    let behind = 5 * MS * i64::from(rank);
    let begin = 10 * MS * cycle as i64;
    file.base += begin - behind;
    let boot = || (format!("machine {rank}"), 50 * MS + 800 * MS * i64::from(rank) + begin);
    file.machine = has_machine.then(boot);
    (file.cycle, file.stage) = (cycle, Some("fit"));
    for n in 0..4 {
        let start = n as i64 * MS;
        let number = 4 * cycle + n;
        file.step(number, start, MS);
        file.collective("all_reduce_gradients", number, (start + 600_000, start + 700_000));
    }
    file
}

#[test]
fn later_cycles_of_other_machines_are_placed_by_collectives() {
    for has_machine in [true, false] {
        for cycles in [2, 4] {
            let files =
                [0, 1].map(|rank| (0..cycles).map(move |one| cycle(rank, one, has_machine)));
            let files: Vec<File> = files.into_iter().flatten().collect();
            let ranks = ranks(&files);
            let of_rank = |rank: u32| ranks.files.iter().filter(move |file| file.rank == rank);
            for file in of_rank(0) {
                assert_eq!(file.offset.nanoseconds, 0, "{has_machine} {file:?}");
            }
            for file in of_rank(1) {
                let offset = (file.offset.nanoseconds, file.offset.error_ns, file.offset.method);
                let right = (5 * MS, Some(0), Method::Collectives);
                assert_eq!(offset, right, "{has_machine} {file:?}");
            }
        }
    }
}

/// Returns kernels of four ranks: tensor parallel groups 0 1 and 2 3, data parallel groups 0 2 and
/// 1 3, pipelines, and broadcasts. The clocks differ by 7 ms per rank.
fn groups(rank: u32, is_described_by_ops: bool) -> File {
    let mut file = File::of(rank, 4);
    let off = 7 * MS * i64::from(rank);
    file.base += off;
    let mut correlation = 0;
    for n in 0..6_u64 {
        let start = n as i64 * MS - off + 30 * MS;
        file.step(n, start, MS);
        let mut kernel = |name: &str, operation: &str, ranks: &str, (launched, end): (i64, i64)| {
            correlation += 1;
            let size = ranks.split(',').count();
            let described = format!(
                r#""Collective name":"{operation}","Process Group Name":"{}","Process Group Ranks":"[{ranks}]","Group size":{size},"In msg nelems":1024,"dtype":"Float""#,
                ranks.len() + usize::from(ranks.starts_with('0'))
            );
            let (on_op, on_kernel) = match is_described_by_ops {
                true => (described, String::new()),
                false => (String::new(), format!(",{described}")),
            };
            let place = (super::rank_files::HOST, super::rank_files::HOST);
            file.with(place, "cpu_op", "record_param_comms", (start + launched, 9_000), &on_op);
            file.call(LAUNCH, start + launched + 1_000, 5_000, correlation);
            let times = (start + end - 30_000, start + end);
            file.kernel(name, 24, times, correlation, &on_kernel);
        };
        let tensor = if rank < 2 { "0, 1" } else { "2, 3" };
        let data = if rank.is_multiple_of(2) { "0, 2" } else { "1, 3" };
        // Each group ends its collective at a different moment.
        let later = |ranks: &str| if ranks.starts_with('0') { 0 } else { 50_000 };
        kernel(ALL_REDUCE, "allreduce", tensor, (100_000, 300_000 + later(tensor)));
        kernel(ALL_REDUCE, "allreduce", data, (200_000, 500_000 + later(data)));
        // Ranks end these operations at different moments.
        let alone = 17_000 * i64::from(rank);
        kernel("ncclDevKernel_SendRecv(x)", "send", "0, 1, 2, 3", (300_000, 600_000 + alone));
        kernel(
            "ncclDevKernel_Broadcast_RING_LL",
            "broadcast",
            "0, 1, 2, 3",
            (400_000, 700_000 + alone),
        );
        kernel("ncclDevKernel_Reduce_Sum_f32", "reduce", "0, 1, 2, 3", (500_000, 800_000 + alone));
    }
    file
}

#[test]
fn only_collectives_of_the_same_group_are_meetings() {
    for is_described_by_ops in [false, true] {
        let files: Vec<File> = (0..4).map(|rank| groups(rank, is_described_by_ops)).collect();
        let found = found(&ranks(&files));
        for (rank, one) in (0_i64..).zip(&found).skip(1) {
            // Rank 3 has no collective in common with rank 0, but ranks 1 and 2 do.
            let met = if rank == 3 { 12 } else { 6 };
            assert_eq!(*one, (0, Some(0), Method::Collectives, met), "rank {rank}");
        }
    }
}

#[test]
fn all_to_all_is_a_meeting_though_its_kernel_sends_and_receives() {
    let of = |rank: u32, more: &str| {
        let mut file = File::of(rank, 2);
        for n in 0..5_u64 {
            let start = n as i64 * MS;
            file.step(n, start, MS);
            file.call(LAUNCH, start + 1_000, 1_000, n + 1);
            let name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
            let end = start + 500_000 + 3_000 * i64::from(rank);
            file.kernel(name, 24, (start + 9_000, end), n + 1, more);
        }
        file
    };
    let both = |more: &str| found(&ranks(&[of(0, more), of(1, more)]))[1];
    let all_to_all = r#","Collective name":"all_to_allv","Group size":2"#;
    assert_eq!(both(all_to_all), (-3_000, Some(0), Method::Collectives, 5));
    for more in ["", r#","Collective name":"send","Group size":2"#] {
        assert_eq!(both(more), (0, None, Method::WallClock, 0), "{more}");
    }
}

/// Returns 60 consecutive steps of 1 s. Each has an op that ends with it and an all-reduce in its
/// middle. Rank 1's clock is 20 millionths too slow.
fn drifting(rank: u32) -> File {
    let own = |time: i64| match rank {
        0 => time,
        _ => time - time / 1_000_000 * 20,
    };
    let mut file = File::of(rank, 2);
    for n in 0..60_u64 {
        let (start, end) = (n as i64 * 1000 * MS, (n as i64 + 1) * 1000 * MS);
        file.step(n, own(start), own(end) - own(start));
        let tail = own(end - 100 * MS);
        file.slice((100, 100), "cpu_op", "aten::add", (tail, own(end) - tail));
        let met = own(start + 500 * MS);
        file.collective("all_reduce_gradients", n, (met - MS, met));
    }
    file
}

#[test]
fn slices_of_a_clock_that_drifts_end_with_what_is_around_them() {
    let files = [drifting(0), drifting(1)];
    let ranks = ranks(&files);
    let offset = ranks.files[1].offset;
    assert_eq!((offset.error_ns, offset.meetings), (Some(0), 60), "{offset:?}");
    let both = mlprof_analysis::kineto::read(merged(&files).as_bytes()).expect("a trace");
    let ends = |name: &str, rank: i64| -> Vec<i64> {
        let is_it = |slice: &&mlprof_analysis::trace::Slice| {
            let process = both.tracks[slice.track as usize].process;
            both.name(slice).starts_with(name)
                && both.processes[process as usize].number == Some(rank * 1000)
        };
        both.slices.iter().filter(is_it).map(|slice| slice.end()).collect()
    };
    let right: Vec<i64> = (1..=60).map(|n| n * 1000 * MS).collect();
    for rank in [0, 1] {
        assert_eq!(ends("ProfilerStep#", rank), right, "rank {rank}");
        assert_eq!(ends("aten::add", rank), right, "rank {rank}");
    }
}

/// Deterministic pseudorandom numbers.
struct Noise(u64);

impl Noise {
    fn below(&mut self, most: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as i64 % most
    }
}

/// Checks random configurations:
///
/// - 2 to 8 ranks on machines with two ranks each
/// - clocks shifted by up to a second and drifting by up to 50 millionths
/// - several cycles
/// - hosts that are ahead by different numbers of steps
/// - kernels or numbered collectives, which end at the same moments on all ranks
#[test]
fn offsets_of_ranks_are_those_that_they_were_made_with() {
    let mut noise = Noise(20_261_127);
    for case in 0..60 {
        let world = 2 + noise.below(7) as u32;
        let (cycles, steps) = (1 + noise.below(3) as u64, 16 + noise.below(30) as u64);
        let (has_kernels, has_drift) = (noise.below(2) == 0, noise.below(2) == 0);
        let has_machines = noise.below(2) == 0;
        let length = (2 + noise.below(50)) * MS;
        // These are the shift and the drift of each machine's clock. The first machine is the
        // reference.
        let clocks: Vec<(i64, i64)> = (0..world.div_ceil(2))
            .map(|machine| match machine {
                0 => (0, 0),
                _ => {
                    let drift = if has_drift { noise.below(101) - 50 } else { 0 };
                    (noise.below(2_000 * MS) - 1_000 * MS, drift)
                }
            })
            .collect();
        let mut files = Vec::new();
        let mut right = Vec::new();
        for rank in 0..world {
            let ahead = if has_kernels { noise.below(4) as u64 } else { 0 };
            let (shift, drift) = clocks[rank as usize / 2];
            for cycle in 0..cycles {
                let mut file = File::of(rank, world);
                (file.cycle, file.stage) = (cycle, Some("fit"));
                let (base, begin) = (file.base, 1_000 * MS * cycle as i64 + noise.below(100_000));
                // This is the clock of the rank's machine, in nanoseconds since the run began.
                let drifted = |time: i64| (i128::from(time) * i128::from(drift) / 1_000_000) as i64;
                let own = |time: i64| time + drifted(time) + shift;
                let zero = own(begin);
                file.base += zero;
                let boot = format!("machine {}", rank / 2);
                file.machine = has_machines.then(|| (boot, 77 * MS + zero));
                for n in 0..steps {
                    let start = 1_000 * MS * cycle as i64 + MS + n as i64 * length;
                    let number = cycle * steps + n;
                    let at = |time: i64| own(time) - zero;
                    file.step(number + ahead, at(start), at(start + length) - at(start));
                    let end = at(start + length * 2 / 3);
                    if has_kernels {
                        file.kernel(ALL_REDUCE, 24, (end - 10_000, end), n + 1, "");
                        if n >= ahead {
                            let launched = at(start + length / 3 - ahead as i64 * length);
                            file.call(LAUNCH, launched, 2_000, n + 1);
                        }
                    } else {
                        file.collective("all_reduce", number, (end - 10_000, end));
                    }
                }
                right.push((base + own(begin + 5 * MS), base + begin + 5 * MS));
                files.push(file);
            }
        }
        let ranks = ranks(&files);
        for file in &ranks.files {
            let (own, right) = right[file.file.parse::<usize>().expect("a place")];
            let wrong = file.offset.apply(own) - right;
            // Within the observed steps, the drift is accurate to 20 ns.
            let most = if has_drift { 20 } else { 0 };
            assert!(
                wrong.abs() <= most,
                "case {case}, rank {} of {world}, file {}: {wrong} ns, {:?}, kernels {has_kernels}, drift {has_drift}, \
                 machines {has_machines}, cycles {cycles}, steps {steps}",
                file.rank,
                file.file,
                file.offset
            );
        }
    }
}
