//! Builder of small rank files from events.

use std::path::Path;

use mlprof_analysis::{Trace, columns, kineto};

/// File of a rank.
pub(crate) struct File {
    pub(crate) rank: u32,
    pub(crate) cycle: u64,
    pub(crate) host: String,
    pub(crate) world_size: u32,
    pub(crate) events: Vec<String>,
    /// Recording pauses as JSON, with times in microseconds.
    pub(crate) pauses: &'static str,
}

impl File {
    pub(crate) fn of(rank: u32, cycle: u64) -> Self {
        Self { rank, cycle, host: "one".to_owned(), world_size: 16, events: Vec::new(), pauses: "" }
    }

    /// Adds a slice. Times are in microseconds.
    pub(crate) fn slice(
        &mut self,
        (pid, tid): (u32, u32),
        category: &str,
        name: &str,
        (ts, dur): (u32, u32),
        args: &str,
    ) -> &mut Self {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
        self
    }

    pub(crate) fn action(&mut self, name: &str, times: (u32, u32)) -> &mut Self {
        self.slice((100, 100), "user_annotation", name, times, "")
    }

    pub(crate) fn step(&mut self, number: u64, times: (u32, u32)) -> &mut Self {
        self.action(&format!("ProfilerStep#{number}"), times)
    }

    pub(crate) fn kernel(&mut self, name: &str, times: (u32, u32)) -> &mut Self {
        self.slice((0, 7), "kernel", name, times, "")
    }

    pub(crate) fn trace(&self) -> Trace {
        let json = format!(
            r#"{{"distributedInfo":{{"rank":{},"world_size":{}}},"hostname":"{}","mlprof":{{"stage":"fit","cycle":{},"pauses":[{}]}},"traceEvents":[{}]}}"#,
            self.rank,
            self.world_size,
            self.host,
            self.cycle,
            self.pauses,
            self.events.join(",")
        );
        kineto::read(json.as_bytes()).expect("a trace")
    }

    pub(crate) fn write(&self, folder: &Path) -> Trace {
        let trace = self.trace();
        columns::write(&trace, folder).expect("tables");
        trace
    }
}
