//! A trace as read by a tool, with the rules that every trace must obey.

use std::collections::HashMap;

use serde_json::Value;

/// A parsed trace.
pub struct Trace {
    pub all: Value,
}

/// A slice, with times in nanoseconds.
#[derive(Debug, Clone)]
pub struct Slice {
    pub name: String,
    pub category: String,
    pub track: (i64, i64),
    pub start: i64,
    pub end: i64,
    pub args: Value,
}

/// Converts microseconds with three decimals to nanoseconds.
fn nanoseconds(value: &Value) -> i64 {
    let microseconds = value.as_f64().expect("a number");
    (microseconds * 1000.0).round() as i64
}

fn track(event: &Value) -> (i64, i64) {
    let number = |key: &str| event[key].as_i64().expect("pid and tid are whole numbers");
    (number("pid"), number("tid"))
}

impl Trace {
    /// Parses a trace and checks every rule.
    pub fn of(text: &str) -> Self {
        let all = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        let trace = Self { all };
        trace.check();
        trace
    }

    pub fn events(&self) -> impl Iterator<Item = &Value> {
        self.all["traceEvents"].as_array().expect("a list").iter()
    }

    pub fn of_phase(&self, phase: &str) -> impl Iterator<Item = &Value> {
        self.events().filter(move |event| event["ph"] == phase)
    }

    pub fn slices(&self) -> Vec<Slice> {
        self.of_phase("X")
            .map(|event| {
                let start = nanoseconds(&event["ts"]);
                Slice {
                    name: event["name"].as_str().expect("a name").to_owned(),
                    category: event["cat"].as_str().expect("a category").to_owned(),
                    track: track(event),
                    start,
                    end: start + nanoseconds(&event["dur"]),
                    args: event["args"].clone(),
                }
            })
            .collect()
    }

    /// Returns the only slice with this name.
    pub fn slice(&self, name: &str) -> Slice {
        let mut found = self.slices().into_iter().filter(|slice| slice.name == name);
        let slice = found.next().unwrap_or_else(|| panic!("no slice is called {name}"));
        assert!(found.next().is_none(), "several slices are called {name}");
        slice
    }

    /// Returns the names of threads and streams, by track.
    pub fn track_names(&self) -> HashMap<(i64, i64), String> {
        let names = self.of_phase("M").filter(|event| event["name"] == "thread_name");
        let name = |event: &Value| event["args"]["name"].as_str().expect("a name").to_owned();
        names.map(|event| (track(event), name(event))).collect()
    }

    fn check(&self) {
        let slices = self.slices();
        check_nesting(&slices);
        let names = self.track_names();
        for slice in &slices {
            assert!(names.contains_key(&slice.track), "{slice:?} is on a track without a name");
            assert!(slice.end >= slice.start);
        }
        self.check_arrows(&slices);
        self.check_launches(&slices);
    }

    /// Checks that both ends of every arrow are at the beginning of a slice.
    fn check_arrows(&self, slices: &[Slice]) {
        let mut starts = HashMap::new();
        for slice in slices {
            starts.insert((slice.track, slice.start), &slice.category);
        }
        let arrows = |phase: &'static str| {
            self.of_phase(phase).map(|event| {
                let category = event["cat"].as_str().expect("a category");
                let id = event["id"].as_i64().expect("a number");
                ((category, id), (track(event), nanoseconds(&event["ts"])), event)
            })
        };
        let mut begun = HashMap::new();
        for (arrow, place, _) in arrows("s") {
            assert!(starts.contains_key(&place), "{arrow:?} begins nowhere");
            assert!(begun.insert(arrow, place).is_none(), "{arrow:?} begins twice");
        }
        let mut ended = 0;
        for (arrow, place, event) in arrows("f") {
            let category = starts.get(&place).unwrap_or_else(|| panic!("{arrow:?} ends nowhere"));
            let start = begun.get(&arrow).unwrap_or_else(|| panic!("{arrow:?} begins nowhere"));
            assert_eq!(event["bp"], "e");
            assert!(place.1 >= start.1, "{arrow:?} leads back in time");
            assert_eq!(arrow.0 == "fwdbwd", category.as_str() == "cpu_op");
            ended += 1;
        }
        assert_eq!(begun.len(), ended, "every arrow has one end");
    }

    /// Checks that kernels start after their launch and that correlations match.
    fn check_launches(&self, slices: &[Slice]) {
        let correlation = |slice: &Slice| slice.args["correlation"].as_i64();
        let launches: HashMap<i64, &Slice> = slices
            .iter()
            .filter(|slice| slice.category == "cuda_runtime")
            .filter_map(|slice| Some((correlation(slice)?, slice)))
            .collect();
        for slice in slices
            .iter()
            .filter(|slice| slice.category.starts_with("gpu_") || slice.category == "kernel")
        {
            if let Some(correlation) = correlation(slice) {
                let launch = launches.get(&correlation).expect("a launch with that correlation");
                assert!(launch.start <= slice.start, "{slice:?} was launched by {launch:?}");
                assert_eq!(launch.args["External id"], slice.args["External id"]);
            }
        }
    }
}

/// Checks that slices of a track do not overlap without nesting.
fn check_nesting(slices: &[Slice]) {
    let mut tracks: HashMap<(i64, i64), Vec<&Slice>> = HashMap::new();
    for slice in slices {
        tracks.entry(slice.track).or_default().push(slice);
    }
    for slices in tracks.values_mut() {
        slices.sort_by_key(|slice| (slice.start, -slice.end));
        let mut open: Vec<&Slice> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|last| last.end <= slice.start) {
                open.pop();
            }
            if let Some(last) = open.last() {
                assert!(slice.end <= last.end, "{slice:?} crosses {last:?}");
            }
            open.push(slice);
        }
    }
}
