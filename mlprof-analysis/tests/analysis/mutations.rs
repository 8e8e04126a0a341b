//! Traces with random damage. The reader must terminate without a panic for any file.

use std::io::Read;
use std::time::{Duration, Instant};

use mlprof_analysis::kineto::{self, Merge};
use mlprof_analysis::ranks::{RankFacts, Ranks};
use mlprof_analysis::{Analysis, perfetto, xplane};

use crate::synthetic::{action, arrow, call, json, op, work};

/// Xorshift random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Fragments that damaged or unusual files contain.
const PIECES: [&[u8]; 44] = [
    b"nan",
    b"-inf",
    b"N/A",
    b"null",
    b"\"\"",
    b"0",
    b"-1",
    b"18446744073709551615",
    b"1e999",
    b"-1e308",
    b"9223372036854775807",
    b"1700000000000000",
    b"18446744073709541.616",
    b"{}",
    b"[]",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"\n",
    b"\xff\xfe",
    b"\0",
    b"\"ph\":\"B\"",
    b"\"ph\":\"E\"",
    b"\"ph\":\"b\",\"id\":1",
    b"\"ph\":\"e\",\"id\":1",
    b"\"dur\":1e15",
    b"\"ts\":0",
    b"\"ts\":-5",
    b"\"pid\":\"stream 7\"",
    b"\"tid\":0",
    b"\"args\":{\"correlation\":5}",
    b"\"cat\":\"kernel\"",
    b"],",
    b"\"traceEvents\":[",
    b"{\"ph\":\"X\",\"ts\":1,\"dur\":2}",
    b"\\u12",
    b"\\ud800",
    b"\"name\":\"ProfilerStep#1\"",
    b"\"baseTimeNanoseconds\":-9223372036854775808",
];

fn mutate(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let at = random.below(text.len());
        let other = random.below(text.len());
        let scale = random.below(9);
        let length = random.below(1 << scale);
        let end = (at + length).min(text.len());
        match random.below(8) {
            0 => text.truncate(at.max(1)),
            1 => drop(text.drain(at..end)),
            2 => text[at] = random.next() as u8,
            3 => text[at] ^= 1 << random.below(8),
            4 => {
                let copy = text[at..end].to_vec();
                text.splice(other..other, copy);
            }
            5 | 6 => {
                let piece = PIECES[random.below(PIECES.len())];
                let end = if random.below(2) == 0 { at } else { end };
                text.splice(at..end, piece.iter().copied());
            }
            _ => number(text, at, random),
        }
        if text.is_empty() {
            text.push(b'{');
        }
    }
}

/// Replaces the digits after `at` with another number.
fn number(text: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = text[at..].iter().position(u8::is_ascii_digit) else { return };
    let start = at + start;
    let length = text[start..].iter().position(|byte| !byte.is_ascii_digit());
    let end = length.map_or(text.len(), |length| start + length);
    let new = random.next() >> random.below(64);
    text.splice(start..end, new.to_string().into_bytes());
}

/// Runs all analyses and writers on a text.
fn ask(text: &[u8], other: &[u8]) {
    let Ok(trace) = kineto::read(text) else { return };
    let analysis = Analysis::of(&trace);
    let parts = analysis.steps.iter().flat_map(|step| &step.parts);
    assert!(parts.into_iter().all(|part| part.duration_ns >= 0), "a negative part");
    assert!(analysis.names.iter().all(|name| name.total_ns >= 0), "a negative sum");
    assert!(analysis.trace_ns >= 0, "a negative trace");
    drop(analysis.text(10));
    perfetto::write(&trace, &mut Vec::new()).expect("memory takes all");
    if let Ok(trace) = kineto::read_for_xprof(text) {
        xplane::write(&trace, &mut Vec::new()).expect("memory takes all");
    }
    let facts = RankFacts::of("one", &trace);
    let Ok(trace) = kineto::read(other) else { return };
    let Ok(ranks) = Ranks::of(&[facts, RankFacts::of("two", &trace)]) else { return };
    let mut merge = Merge::begin(Vec::new(), &ranks).expect("memory takes all");
    for placed in &ranks.files {
        let text = if placed.file == "one" { text } else { other };
        merge.add(placed, text).expect("it was read before");
    }
    let merged = merge.finish().expect("memory takes all");
    serde_json::from_slice::<serde::de::IgnoredAny>(&merged).expect("strict JSON");
}

fn seed_text(rank: u32) -> Vec<u8> {
    let step = |number: u32| {
        let at = f64::from(number) * 100.0;
        [
            action(&format!("ProfilerStep#{number}"), at, 100.0),
            op("aten::mm", at + 10.0, 30.0),
            call("cudaLaunchKernel", at + 20.0, 10.0, 10 + number),
            work("kernel", "ncclDevKernel", at + 40.0, 40.0, 10 + number),
            arrow(number, ((100, 100), at + 10.0), ((100, 100), at + 20.0)),
        ]
    };
    let steps: Vec<String> = (1..=4).flat_map(step).collect();
    json(&steps).replace("\"rank\": 1", &format!("\"rank\": {rank}")).into_bytes()
}

/// Returns the CPU time of this thread. On a busy machine it is shorter than the elapsed time. If
/// the system does not report it, the result is 0, so that no mutation counts as slow.
fn cpu_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = told.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Checks that a sleeping thread uses no CPU time. The same holds for a thread that waits for a
/// processor.
#[test]
fn time_is_that_of_the_processor() {
    let began = cpu_time();
    std::thread::sleep(Duration::from_millis(50));
    assert!(cpu_time().saturating_sub(began) < Duration::from_millis(50));
}

fn run(seeds: &[Vec<u8>], random: &mut Random, mut goes_on: impl FnMut(u64) -> bool) -> u64 {
    let other = seed_text(0);
    let mut count = 0;
    while goes_on(count) {
        let mut text = seeds[random.below(seeds.len())].clone();
        mutate(&mut text, random);
        let began = cpu_time();
        let result = std::panic::catch_unwind(|| ask(&text, &other));
        let took = cpu_time().saturating_sub(began);
        let is_slow = took > Duration::from_secs(20);
        if result.is_err() || is_slow {
            let name = std::env::temp_dir().join(format!("mutation-{count}.json"));
            std::fs::write(&name, &text).expect("a file");
            panic!("{} after {count} mutations: {took:?}", name.display());
        }
        count += 1;
    }
    count
}

#[test]
fn damaged_traces_are_read_or_refused() {
    let seeds = [seed_text(1)];
    assert_eq!(run(&seeds, &mut Random(0x5eed), |count| count < 600), 600);
}

/// Runs the mutations for `MLPROF_MUTATE_SECONDS` seconds on the traces in the folder
/// `MLPROF_MUTATE_TRACES`.
#[test]
#[ignore = "takes as long as it is told to"]
fn damaged_traces_of_a_folder_are_read_or_refused() {
    let of = |name: &str| std::env::var(name).ok();
    let (Some(seconds), Some(folder)) = (of("MLPROF_MUTATE_SECONDS"), of("MLPROF_MUTATE_TRACES"))
    else {
        return;
    };
    let end = Instant::now() + Duration::from_secs(seconds.parse().expect("a number"));
    let mut seeds = vec![seed_text(1)];
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let mut text = Vec::new();
        std::fs::File::open(&path).expect("a file").read_to_end(&mut text).expect("it can be read");
        seeds.push(text);
    }
    let seed = of("MLPROF_MUTATE_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count = run(&seeds, &mut Random(seed), |_| Instant::now() < end);
    println!("{count} mutations of {} traces", seeds.len());
}
