//! Handmade traces of two ranks in `tests/cases`, with results worked out by hand.

use std::path::Path;

use mlprof_analysis::kineto;
use mlprof_analysis::ranks::{Method, RankFacts, Ranks};

fn ranks(files: &[&str]) -> Ranks {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let facts = files.iter().map(|file| {
        let text = std::fs::read(folder.join(file)).expect("it is there");
        RankFacts::of(*file, &kineto::read(text.as_slice()).expect("a trace"))
    });
    Ranks::of(&facts.collect::<Vec<_>>()).expect("ranks")
}

/// Checks a host that is a step ahead of its device on rank 1. The clocks agree, and all
/// all-reduces end at the same time.
#[test]
fn a_host_that_is_a_step_ahead() {
    let found = ranks(&["ahead-rank0.json", "ahead-rank1.json"]);
    let offset = found.files[1].offset;
    assert_eq!(
        (offset.nanoseconds, offset.error_ns, offset.method, offset.meetings),
        (0, Some(0), Method::Collectives, 5)
    );
}

/// Checks a wall clock on rank 1 that is 5 ms behind in both cycles.
#[test]
fn two_cycles_of_two_machines() {
    let files =
        [0, 1].map(|rank| [0, 1].map(|cycle| format!("marked-rank{rank}-cycle{cycle}.json")));
    let files: Vec<&str> = files.iter().flatten().map(String::as_str).collect();
    let found = ranks(&files);
    let of = |place: usize| {
        let placed = &found.files[place];
        (placed.rank, placed.offset.nanoseconds, placed.offset.method)
    };
    assert_eq!((of(0), of(1)), ((0, 0, Method::Reference), (0, 0, Method::MachineClock)));
    let behind = 5_000_000;
    assert_eq!(
        (of(2), of(3)),
        ((1, behind, Method::Collectives), (1, behind, Method::Collectives))
    );
    // Half of the collectives belong to rank 0's second cycle. The machine's clock determines its
    // offset to within 40 ns.
    let errors: Vec<_> = found.files.iter().map(|file| file.offset.error_ns).collect();
    assert_eq!(errors, [Some(0), Some(40), Some(20), Some(60)]);
}

/// Checks a slow device: rank 1 computes for 8 ms per step, and rank 0 for 6 ms. Then both run an
/// all-reduce until 9.2 ms.
#[test]
fn a_slow_device() {
    let found = ranks(&["slow-device-rank0.json", "slow-device-rank1.json"]);
    let [slow] = &found.stragglers[..] else { panic!("{found:?}") };
    assert_eq!((slow.rank, slow.own_ns, slow.usual_ns), (1, 8_000_000, 6_000_000));
    let of = |rank: usize| (found.devices[rank].compute_ns, found.devices[rank].communication_ns);
    assert_eq!((of(0), of(1)), ((6_000_000, 3_100_000), (8_000_000, 1_100_000)));
    let collectives = found.exposed.iter().find(|part| part.stage.waits_for_others);
    assert_eq!(collectives.map(|part| part.exposed_ns), Some(6 * 1_100_000));
}
