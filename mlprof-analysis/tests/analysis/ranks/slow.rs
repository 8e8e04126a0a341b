//! Tests of ranks with slow devices, and of step stages.

use mlprof_analysis::ranks::Ranks;

use super::rank_files::{ALL_REDUCE, DEVICE, File, HOST, LAUNCH, WAIT, ranks};

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

fn exposed(ranks: &Ranks, stage: &str) -> i64 {
    let of_stage = ranks.exposed.iter().filter(|part| part.stage.name == stage);
    of_stage.map(|part| part.exposed_ns).sum()
}

/// Synchronisation of a host with its device.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Host {
    /// The host waits in each step until its device has finished.
    Waits,
    /// Like `Waits`, and the stream of NCCL waits for an event.
    WaitsForEvents,
    /// The host waits in an asynchronous copy of pageable memory.
    Copies,
    /// The host never waits. All steps end before the device finishes the first one.
    RunsAhead,
}

/// Returns steps without annotations. In each, the device computes and then runs an all-reduce
/// until all ranks have finished it.
fn rank(rank: u32, computes: i64, slowest: i64, host: Host) -> File {
    let mut file = File::of(rank, 2);
    let reduced = slowest + 1_100 * US;
    let length = 11 * MS.max(reduced / 10);
    for n in 0..8_u64 {
        let device = n as i64 * length;
        let start = if host == Host::RunsAhead { n as i64 * 100 * US } else { device };
        let step = if host == Host::RunsAhead { 90 * US } else { length - 10 * US };
        file.step(n, start, step);
        file.call(LAUNCH, start + 20 * US, 4 * US, 10 * n + 1);
        if host == Host::WaitsForEvents {
            file.call("cudaEventRecord", start + 25 * US, US, 10 * n + 2);
            file.call("cudaStreamWaitEvent", start + 27 * US, US, 10 * n + 3);
        }
        file.call(LAUNCH, start + 30 * US, 4 * US, 10 * n + 4);
        let (began, computed) = (device + 100 * US, device + 100 * US + computes);
        file.kernel("gemm", 7, (began, computed), 10 * n + 1, "");
        file.kernel(ALL_REDUCE, 20, (computed, device + 100 * US + reduced), 10 * n + 4, "");
        if host != Host::RunsAhead {
            let until = device + 150 * US + reduced;
            let name = if host == Host::Copies { "cudaMemcpyAsync" } else { WAIT };
            file.call(name, start + 50 * US, until - start - 50 * US, 10 * n + 5);
            if host == Host::Copies {
                let times = (until - 5 * US, 2 * US);
                let args = format!(r#""stream":20,"correlation":{},"bytes":4"#, 10 * n + 5);
                let copy = "Memcpy DtoH (Device -> Pageable)";
                file.with((DEVICE, 20), "gpu_memcpy", copy, times, &args);
            }
        }
    }
    file
}

#[test]
fn a_rank_whose_device_computes_longer_is_slow() {
    for host in [Host::Waits, Host::WaitsForEvents, Host::Copies, Host::RunsAhead] {
        for (usual, slow) in [(6 * MS, 8 * MS), (3 * MS, 9 * MS), (8 * MS, 9 * MS)] {
            let files = [rank(0, usual, slow, host), rank(1, slow, slow, host)];
            let found = ranks(&files);
            assert_eq!(found.stragglers.len(), 1, "{host:?} {found:?}");
            let straggler = &found.stragglers[0];
            let copied = if host == Host::Copies { 2 * US } else { 0 };
            let own = (straggler.rank, straggler.own_ns, straggler.usual_ns);
            assert_eq!(own, (1, slow + copied, usual + copied));
            assert_eq!(straggler.stage, "computing on the device", "{host:?}");
            assert_eq!(
                (straggler.stage_longer_ns, straggler.longer_ns),
                (slow - usual, 8 * (slow - usual))
            );
            let of = |rank: usize| {
                let device = found.devices[rank];
                (device.rank, device.compute_ns, device.memory_ns, device.communication_ns)
            };
            assert_eq!(of(0), (0, usual, copied, slow - usual + 1_100 * US), "{host:?}");
            assert_eq!(of(1), (1, slow, copied, 1_100 * US), "{host:?}");
            let collectives = if host == Host::RunsAhead { 0 } else { 8 * 1_100 * US };
            assert_eq!(exposed(&found, "collectives"), collectives, "{host:?}");
            let sum: i64 = found.exposed.iter().map(|part| part.exposed_ns).sum();
            assert_eq!(sum, found.length_ns, "{host:?}");
            let text = found.text();
            assert!(text.contains("Rank 1 is slow") && text.contains("Devices"), "{text}");
        }
    }
}

#[test]
fn of_devices_that_are_alike_none_is_slow() {
    for host in [Host::Waits, Host::RunsAhead] {
        let files = [rank(0, 8 * MS, 8 * MS, host), rank(1, 79 * MS / 10, 8 * MS, host)];
        let found = ranks(&files);
        assert_eq!((&found.stragglers, found.devices.len()), (&Vec::new(), 2), "{host:?}");
        assert_eq!(found.not_judged, Vec::<String>::new(), "{host:?}");
        assert!(found.text().contains("No rank is slow."), "{host:?}");
    }
}

/// Checks three ranks of which two have device work.
#[test]
fn a_verdict_says_which_part_was_not_judged() {
    let mut without = File::of(2, 3);
    for n in 0..8 {
        without.step(n, n as i64 * 11 * MS, 10 * MS);
        without.collective("all_reduce", n, (n as i64 * 11 * MS + MS, n as i64 * 11 * MS + 2 * MS));
    }
    let alike = |number| rank(number, 8 * MS, 8 * MS, Host::Waits);
    let found = ranks(&[alike(0), alike(1), without]);
    assert_eq!(found.devices, []);
    let text = found.text();
    assert!(!text.contains("No rank is slow."), "{text}");
    assert!(text.contains("slow devices were not detected"), "{text}");
    // Without devices and collectives, a waiting rank takes as long as the slow one.
    let alone = |number: u32| {
        let mut file = File::of(number, 2);
        (0..5).for_each(|n| file.step(n, n as i64 * MS, MS));
        file
    };
    let text = ranks(&[alone(0), alone(1)]).text();
    assert!(!text.contains("No rank is slow.") && text.contains("whole steps"), "{text}");
    // Two steps are not enough for a verdict.
    let few = |number: u32| {
        let mut file = File::of(number, 2);
        (0..2).for_each(|n| file.step(n, n as i64 * MS, MS - i64::from(number) * 500 * US));
        file
    };
    let text = ranks(&[few(0), few(1)]).text();
    assert!(
        !text.contains("No rank is slow.") && text.contains("slow ranks were not detected"),
        "{text}"
    );
}

/// Checks a kernel that was launched before the trace.
#[test]
fn work_that_was_launched_before_the_trace_is_of_no_step() {
    let mut files = [rank(0, 6 * MS, 6 * MS, Host::Waits), rank(1, 6 * MS, 6 * MS, Host::Waits)];
    files[1].kernel("left over", 9, (MS, 9 * MS), 9_999, "");
    let found = ranks(&files);
    assert_eq!(found.stragglers, []);
    assert_eq!(found.devices[0].compute_ns, found.devices[1].compute_ns);
}

/// Checks that an action that waits for the device counts as the rank's own work.
#[test]
fn a_rank_that_synchronizes_longer_is_slow() {
    let of = |rank: u32, synchronize: i64| {
        let mut file = File::of(rank, 2);
        for n in 0..6_u64 {
            let start = n as i64 * 20 * MS;
            file.step(n, start, 20 * MS);
            file.action("training_step", start, 5 * MS);
            file.action("synchronize", start + 5 * MS, synchronize);
            let reduced = (start + 5 * MS + synchronize, start + 15 * MS);
            file.collective("all_reduce_gradients", n, reduced);
        }
        file
    };
    let found = ranks(&[of(0, 2 * MS), of(1, 8 * MS)]);
    let slow: Vec<u32> = found.stragglers.iter().map(|straggler| straggler.rank).collect();
    assert_eq!(slow, [1], "{found:?}");
}

/// Appearance of the backward pass in a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Backward {
    /// An annotation around it on the training thread.
    Annotation(&'static str),
    /// Slices of autograd's own thread.
    Autograd,
    /// A Python frame.
    Python,
}

/// Returns PyTorch steps with 1 ms of forward, 4 ms of backward, 2 ms of optimizer and 1 ms of
/// other time.
fn pytorch(rank: u32, backward: Backward, forward: i64) -> File {
    let mut file = File::of(rank, 2);
    for n in 0..5_u64 {
        let start = n as i64 * 10 * MS;
        file.step(n, start, 7 * MS + forward);
        let began = start + forward;
        let op = |file: &mut File, tid: i64, name: &str, times: (i64, i64)| {
            file.slice((HOST, tid), "cpu_op", name, times);
        };
        match backward {
            // An op with a known backward op belongs to the forward pass.
            Backward::Autograd => {
                op(&mut file, HOST, "aten::addmm", (start, forward));
                for (ph, tid, ts) in [("s", HOST, start), ("f", 101, began + 10 * US)] {
                    file.event(format!(
                        r#"{{"ph":"{ph}","cat":"fwdbwd","name":"fwdbwd","id":{n},"pid":{HOST},"tid":{tid},"ts":{},"bp":"e"}}"#,
                        ts / US
                    ));
                }
                let name = "autograd::engine::evaluate_function: AddmmBackward0";
                op(&mut file, 101, name, (began, 2 * MS));
                op(&mut file, 101, "AddmmBackward0", (began + 10 * US, MS));
                let name = "autograd::engine::evaluate_function: TBackward0";
                op(&mut file, 101, name, (began + 2_100 * US, 1_900 * US));
            }
            Backward::Annotation(name) => {
                file.action("## forward ##", start, forward);
                file.action(name, began, 4 * MS);
            }
            Backward::Python => {
                let python = |file: &mut File, name: &str, times: (i64, i64)| {
                    file.slice((HOST, HOST), "python_function", name, times);
                };
                python(&mut file, "nn.Module: ResNet_0", (start, forward));
                python(&mut file, "torch/_tensor.py(570): backward", (began, 4 * MS));
                let name = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>";
                python(&mut file, name, (began, 4 * MS));
                python(&mut file, "nn.Module: recomputed_0", (began + MS, MS));
            }
        }
        file.action("Optimizer.step#SGD.step", began + 4 * MS, 2 * MS);
    }
    file
}

#[test]
fn stages_of_pytorch_are_found_without_the_names_of_hooks() {
    let ways = [
        Backward::Annotation("## backward ##"),
        Backward::Annotation("Backward"),
        Backward::Autograd,
        Backward::Python,
    ];
    for way in ways {
        let found = ranks(&[pytorch(0, way, MS), pytorch(1, way, MS)]);
        let of = |stage: &str| exposed(&found, stage);
        let stages = ["forward", "backward", "optimizer", "other"].map(of);
        assert_eq!(stages, [5 * MS, 20 * MS, 10 * MS, 5 * MS], "{way:?} {:?}", found.exposed);
    }
    let late = ranks(&[pytorch(0, Backward::Autograd, MS), pytorch(1, Backward::Autograd, 3 * MS)]);
    assert_eq!(late.stragglers.len(), 1, "{late:?}");
    assert_eq!(late.stragglers[0].stage, "forward");
}

/// Checks that exposed copies count as the rank's own work. Copies hidden behind computation and
/// communication do not count.
#[test]
fn exposed_copies_are_own_work() {
    let of = |number: u32, copy: i64| {
        let mut file = rank(number, 6 * MS, 6 * MS, Host::RunsAhead);
        for n in 0..8_u64 {
            file.call("cudaMemcpyAsync", n as i64 * 100 * US + 40 * US, US, 1000 + n);
            let begin = n as i64 * 11 * MS + 100 * US + 7_100 * US;
            let args = format!(r#""stream":9,"correlation":{},"bytes":4096"#, 1000 + n);
            file.with((DEVICE, 9), "gpu_memcpy", "Memcpy HtoD", (begin - MS, copy + MS), &args);
        }
        file
    };
    let found = ranks(&[of(0, MS), of(1, 3 * MS)]);
    assert_eq!((found.devices[0].memory_ns, found.devices[1].memory_ns), (MS, 3 * MS));
    assert_eq!(found.stragglers.len(), 1, "{found:?}");
    assert_eq!(found.stragglers[0].stage, "copies on the device");
}
