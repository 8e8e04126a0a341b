//! Tests that read traces written by `Merge`. Device work must stay linked to the launches of its
//! own rank.

use mlprof_analysis::kineto;
use mlprof_analysis::{Analysis, Trace};

use super::rank_files::{DEVICE, File, HOST, LAUNCH, merged};

const US: i64 = 1_000;

/// Returns a step with an op that launches a kernel of `duration` µs, 10 µs after the end of the
/// call. All ranks and cycles use the same ids. In odd cycles, the device comes first in the file.
fn file(rank: u32, cycle: u64, op: &str, duration: i64) -> File {
    let mut file = File::of(rank, 2);
    file.base += cycle as i64 * 1_000 * US;
    (file.cycle, file.stage) = (cycle, Some("fit"));
    let kernel = |file: &mut File| {
        file.kernel("gemm", 7, (40 * US, (40 + duration) * US), 11, r#","External id":5"#);
    };
    let label = |file: &mut File, pid: i64, labels: &str| {
        file.event(format!(
            r#"{{"ph":"M","name":"process_labels","pid":{pid},"tid":0,"ts":0,"args":{{"labels":"{labels}"}}}}"#
        ));
    };
    if cycle % 2 == 1 {
        kernel(&mut file);
        label(&mut file, DEVICE, "GPU 0");
    }
    label(&mut file, HOST, "CPU");
    file.step(cycle, 0, 900 * US);
    file.with((HOST, HOST), "cpu_op", op, (10 * US, 20 * US), r#""External id":5"#);
    file.call(LAUNCH, 20 * US, 10 * US, 11);
    let mut arrow = |ph: &str, cat: &str, (pid, tid): (i64, i64), ts: i64| {
        file.event(format!(
            r#"{{"ph":"{ph}","cat":"{cat}","name":"{cat}","id":11,"pid":{pid},"tid":{tid},"ts":{ts},"bp":"e"}}"#
        ));
    };
    arrow("s", "ac2g", (HOST, HOST), 20);
    arrow("f", "ac2g", (DEVICE, 7), 40);
    arrow("s", "fwdbwd", (HOST, HOST), 10);
    arrow("f", "fwdbwd", (HOST, 101), 500);
    file.slice((HOST, 101), "cpu_op", &format!("{op}Backward"), (500 * US, 50 * US));
    if cycle.is_multiple_of(2) {
        label(&mut file, DEVICE, "GPU 0");
        kernel(&mut file);
    }
    file
}

fn files() -> [File; 4] {
    [
        file(0, 0, "aten::mm", 100),
        file(0, 1, "aten::mm", 100),
        file(1, 0, "aten::softmax", 400),
        file(1, 1, "aten::softmax", 400),
    ]
}

fn read(files: &[File]) -> Trace {
    kineto::read(merged(files).as_bytes()).expect("a trace")
}

#[test]
fn kernels_of_ranks_hang_on_their_own_launches() {
    let trace = read(&files());
    assert_eq!((trace.info.not_understood, trace.flows.len()), (0, 8));
    let analysis = Analysis::of(&trace);
    let launches: Vec<(u64, i64)> = analysis
        .devices
        .iter()
        .map(|device| &device.launches)
        .map(|launches| (launches.launched, launches.delay_max_ns))
        .collect();
    assert_eq!(launches, [(2, 10 * US), (2, 10 * US)]);
    let device_time = |name: &str| {
        let of_name = analysis.names.iter().filter(|it| it.name == name);
        of_name.map(|it| it.device_ns).sum::<i64>()
    };
    assert_eq!(device_time("aten::mm"), 200 * US);
    assert_eq!(device_time("aten::softmax"), 800 * US);
}

#[test]
fn processes_of_a_rank_have_one_number_in_all_of_its_cycles() {
    let trace = read(&files());
    let mut found: Vec<(i64, &str)> = trace
        .processes
        .iter()
        .filter_map(|process| Some((process.number?, trace.names.text(process.labels))))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(0, "CPU"), (1, "GPU 0"), (1000, "CPU"), (1001, "GPU 0")]);
}

/// Checks that 0 and -1 (also as unsigned numbers), which mean "no id", remain unchanged.
#[test]
fn numbers_that_tie_nothing_stay() {
    let mut files = files();
    for none in ["0", "-1", "4294967295", "18446744073709551615"] {
        files[2].with(
            (HOST, HOST),
            "cuda_runtime",
            "cudaFree",
            (700 * US, US),
            &format!(r#""correlation":{none}"#),
        );
    }
    let text = merged(&files);
    for none in ["0", "-1", "4294967295", "18446744073709551615"] {
        assert!(text.contains(&format!(r#""args":{{"correlation":{none}}}"#)), "{none}");
    }
}
