//! Builders of rank traces from events. Times are in nanoseconds of the rank's own clock.

use std::fmt::Write;

use mlprof_analysis::Trace;
use mlprof_analysis::kineto::{self, Merge};
use mlprof_analysis::ranks::{RankFacts, Ranks};

pub const LAUNCH: &str = "cudaLaunchKernel";
pub const WAIT: &str = "cudaDeviceSynchronize";
pub const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
/// Process ids of the host and the device.
pub const HOST: i64 = 100;
pub const DEVICE: i64 = 0;

/// Builder of one file of a rank.
#[derive(Debug, Clone, Default)]
pub struct File {
    pub rank: u32,
    pub world: u32,
    pub base: i64,
    /// Boot id of the machine, and its monotonic clock in nanoseconds when the file's own time is
    /// zero.
    pub machine: Option<(String, i64)>,
    pub stage: Option<&'static str>,
    pub cycle: u64,
    events: Vec<String>,
}

fn microseconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let magnitude = nanoseconds.unsigned_abs();
    format!("{sign}{}.{:03}", magnitude / 1000, magnitude % 1000)
}

impl File {
    pub fn of(rank: u32, world: u32) -> Self {
        Self { rank, world, base: 1_700_000_000_000_000_000, ..Self::default() }
    }

    pub fn slice(&mut self, place: (i64, i64), category: &str, name: &str, times: (i64, i64)) {
        self.with(place, category, name, times, "");
    }

    /// Adds a slice with arguments. `args` has no braces.
    pub fn with(
        &mut self,
        (pid, tid): (i64, i64),
        category: &str,
        name: &str,
        (start, duration): (i64, i64),
        args: &str,
    ) {
        let (start, duration) = (microseconds(start), microseconds(duration));
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{start},"dur":{duration},"args":{{{args}}}}}"#
        ));
    }

    pub fn action(&mut self, name: &str, start: i64, duration: i64) {
        self.slice((HOST, HOST), "user_annotation", name, (start, duration));
    }

    pub fn step(&mut self, number: u64, start: i64, duration: i64) {
        self.action(&format!("ProfilerStep#{number}"), start, duration);
    }

    /// Adds a collective of the run with mlprof's numbering.
    pub fn collective(&mut self, name: &str, number: u64, (start, end): (i64, i64)) {
        let args = format!(r#""Collective name":"{name}","Seq":{number}"#);
        self.with((HOST, HOST), "user_annotation", name, (start, end - start), &args);
    }

    pub fn call(&mut self, name: &str, start: i64, duration: i64, correlation: u64) {
        let args = format!(r#""correlation":{correlation}"#);
        self.with((HOST, HOST), "cuda_runtime", name, (start, duration), &args);
    }

    /// Adds a kernel on a stream from `start` to `end`. `more` contains further arguments after a
    /// comma.
    pub fn kernel(
        &mut self,
        name: &str,
        stream: i64,
        (start, end): (i64, i64),
        correlation: u64,
        more: &str,
    ) {
        let args = format!(r#""stream":{stream},"correlation":{correlation}{more}"#);
        self.with((DEVICE, stream), "kernel", name, (start, end - start), &args);
    }

    pub fn event(&mut self, text: String) {
        self.events.push(text);
    }

    pub fn json(&self) -> String {
        let mut text = format!(
            r#"{{"schemaVersion":1,"distributedInfo":{{"rank":{},"world_size":{}}},"baseTimeNanoseconds":{}"#,
            self.rank, self.world, self.base
        );
        let stage = self.stage.map_or("null".to_owned(), |stage| format!("\"{stage}\""));
        let _ = write!(text, r#","mlprof":{{"stage":{stage},"cycle":{}"#, self.cycle);
        if let Some((boot, monotonic)) = &self.machine {
            let _ = write!(
                text,
                r#","boot_id":"{boot}","clocks":[{{"ts":0.000,"realtime_ns":1,"monotonic_ns":{monotonic},"error_ns":0}}]"#
            );
        }
        let _ = write!(text, r#"}},"traceEvents":[{}],"traceName":"x"}}"#, self.events.join(",\n"));
        text
    }

    pub fn trace(&self) -> Trace {
        kineto::read(self.json().as_bytes()).expect("a trace")
    }
}

/// Analyses the files together. Each file is named by its index.
pub fn ranks(files: &[File]) -> Ranks {
    let facts = files.iter().enumerate();
    let facts = facts.map(|(place, file)| RankFacts::of(place.to_string(), &file.trace()));
    Ranks::of(&facts.collect::<Vec<_>>()).expect("ranks")
}

/// Merges the files into one trace.
pub fn merged(files: &[File]) -> String {
    let ranks = ranks(files);
    let mut merge = Merge::begin(Vec::new(), &ranks).expect("memory takes all");
    for placed in &ranks.files {
        let place: usize = placed.file.parse().expect("a place");
        merge.add(placed, files[place].json().as_bytes()).expect("a trace");
    }
    String::from_utf8(merge.finish().expect("memory takes all")).expect("text")
}
