//! Merges the traces of several ranks into one file for trace viewers.
//!
//! Events are copied unchanged, except for:
//!
//! - times and durations, which are converted to the first rank's clock
//! - processes, which get ids that are unique per rank and equal in all cycles of a rank, and names
//!   that begin with `rank 3` or similar
//! - ids of arrows, `correlation` and `External id`, which are replaced in every file because all
//!   ranks count from the same numbers
//!
//! *Streaming*: events are not kept in memory. The merge keeps about 16 bytes for each id of the
//! current file.

use crate::Error;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::foreign;
use super::renumber::Renumbered;
use super::stream::parse;
use super::time::{duration, moment};
use super::values::Key;
use super::walk::{Visit, walk};
use crate::ranks::{Placed, Ranks};

/// Number of consecutive process ids reserved for each rank.
const PROCESSES: i64 = 1000;

/// Writer of a merged trace of several ranks.
#[derive(Debug)]
pub struct Merge<W> {
    out: W,
    base_ns: i64,
    events: u64,
    /// New process ids by rank and by the text of the old id.
    processes: FxHashMap<u32, FxHashMap<String, i64>>,
    /// Next process id for ranks that exceed their reserved range.
    next: i64,
    arrows: Renumbered,
    correlations: Renumbered,
    external: Renumbered,
}

/// Raw fields of an event.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(10);
                while let Some((name, value)) = map.next_entry::<Key<'de>, &RawValue>()? {
                    fields.push((name.0, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(All)
    }
}

impl<'a> Fields<'a> {
    /// Returns the raw value of a field.
    fn value(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| *value)
    }

    /// Returns the raw value of a field without the quotes of a string.
    fn text(&self, name: &str) -> Option<&'a str> {
        Some(self.value(name)?.get().trim_matches('"'))
    }
}

/// Input file during the merge.
struct File<'a, W> {
    merge: &'a mut Merge<W>,
    placed: &'a Placed,
    failure: Option<io::Error>,
}

impl<W: Write> Merge<W> {
    /// Starts a merged trace of these ranks.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn begin(mut out: W, ranks: &Ranks) -> io::Result<Self> {
        let base_ns = ranks.files.first().map_or(0, |file| file.base_ns);
        write!(
            out,
            "{{\n\"schemaVersion\":1,\n\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":{base_ns},\n\
             \"mlprof\":{{\"world_size\":{},\"ranks\":",
            ranks.world_size
        )?;
        serde_json::to_writer(&mut out, &ranks.files)?;
        out.write_all(b"},\n\"traceEvents\":[")?;
        let most = ranks.files.iter().map(|file| i64::from(file.rank)).max().unwrap_or(0);
        let next = (most + 1) * PROCESSES;
        Ok(Self {
            out,
            base_ns,
            events: 0,
            processes: FxHashMap::default(),
            next,
            arrows: Renumbered::default(),
            correlations: Renumbered::default(),
            external: Renumbered::default(),
        })
    }

    /// Appends the events of one file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is not a trace or writing fails. Events read before the error
    /// remain in the merged trace.
    pub fn add(&mut self, placed: &Placed, text: impl Read) -> Result<(), Error> {
        for numbers in [&mut self.arrows, &mut self.correlations, &mut self.external] {
            numbers.begin_file();
        }
        let mut file = File { merge: self, placed, failure: None };
        let walked = walk(text, &mut file)?;
        match file.failure.take() {
            Some(error) => Err(error.into()),
            None if walked.is_trace => Ok(()),
            None => Err(Error::NoTrace(foreign::reason(&walked.fields, &walked.begins))),
        }
    }

    /// Completes the merged trace and returns the writer.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n],\n\"traceName\":\"merged\"\n}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Visit for File<'_, W> {
    fn field(&mut self, _name: &str, _value: &serde_json::Value) {}

    fn event(&mut self, text: &[u8]) -> (Result<bool, serde_json::Error>, usize) {
        let (fields, length) = parse::<Fields<'_>>(text);
        let understood = fields.map(|fields| {
            // After the first write error, no further events are written.
            if self.failure.is_none() {
                self.failure = self.write(&fields).err();
            }
            true
        });
        (understood, length)
    }
}

impl<W: Write> File<'_, W> {
    fn write(&mut self, fields: &Fields<'_>) -> io::Result<()> {
        let first = if self.merge.events == 0 { "\n{" } else { ",\n{" };
        self.merge.events += 1;
        let process = fields.text("pid").map(|pid| self.process(pid));
        let phase = fields.text("ph").unwrap_or_default();
        let what = fields.text("name").unwrap_or_default();
        let has_number = matches!(phase, "s" | "t" | "f" | "b" | "n" | "e" | "S" | "T" | "p" | "F");
        let start = moment(fields.value("ts")).ok();
        let placed = self.placed;
        let Merge { out, base_ns, arrows, correlations, external, .. } = &mut *self.merge;
        out.write_all(first.as_bytes())?;
        for (place, (name, value)) in fields.0.iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, name)?;
            out.write_all(b":")?;
            let text = value.get();
            match (&**name, process, start) {
                ("pid", Some(process), _) => write!(out, "{process}")?,
                ("ts", _, Some(start)) => {
                    let time = placed.offset.apply(placed.base_ns.saturating_add(start));
                    write_microseconds(out, time.saturating_sub(*base_ns))?;
                }
                ("dur", _, Some(start)) if placed.offset.drift != 0.0 => {
                    match duration(Some(value)) {
                        Ok(duration) => {
                            write_microseconds(out, scaled(placed, start, duration))?;
                        }
                        Err(_) => out.write_all(text.as_bytes())?,
                    }
                }
                ("id", ..) if has_number => write!(out, "{}", arrows.number(text))?,
                ("bind_id", ..) => write!(out, "{}", arrows.number(text))?,
                ("args", Some(process), _) if phase == "M" => {
                    let args = metadata(what, value, placed.rank, process);
                    out.write_all(args.as_bytes())?;
                }
                ("args", ..) if is_tied(text) => {
                    write_arguments(out, text, correlations, external)?;
                }
                _ => out.write_all(text.as_bytes())?,
            }
        }
        out.write_all(b"}")
    }

    /// Returns the process id that is unique among all ranks.
    fn process(&mut self, text: &str) -> i64 {
        let Self { merge, placed, .. } = self;
        let processes = merge.processes.entry(placed.rank).or_default();
        if let Some(number) = processes.get(text) {
            return *number;
        }
        let own = processes.len() as i64; // fewer than events
        let number = match own < PROCESSES {
            true => i64::from(placed.rank) * PROCESSES + own,
            false => {
                merge.next += 1;
                merge.next - 1
            }
        };
        processes.insert(text.to_owned(), number);
        number
    }
}

/// Converts a duration to the first rank's clock. Slices that end at the same moment still do so
/// after the conversion.
fn scaled(placed: &Placed, start: i64, duration: i64) -> i64 {
    let moment = |time: i64| placed.offset.apply(placed.base_ns.saturating_add(time));
    moment(start.saturating_add(duration)) - moment(start)
}

/// Returns `true` if arguments may contain ids that link events.
fn is_tied(arguments: &str) -> bool {
    ["orrelation", "corr_id", "xternal id"].iter().any(|name| arguments.contains(name))
}

/// Writes arguments and replaces their ids with ids that are unique among all files.
fn write_arguments(
    out: &mut impl Write,
    text: &str,
    correlations: &mut Renumbered,
    external: &mut Renumbered,
) -> io::Result<()> {
    let Ok(Fields(fields)) = serde_json::from_str(text) else {
        return out.write_all(text.as_bytes());
    };
    let mut separator = "{";
    for (name, value) in fields {
        out.write_all(separator.as_bytes())?;
        separator = ",";
        serde_json::to_writer(&mut *out, &name)?;
        out.write_all(b":")?;
        let numbers = match &*name {
            "correlation" | "wait_on_cuda_event_record_corr_id" => Some(&mut *correlations),
            "External id" | "external id" => Some(&mut *external),
            _ => None,
        };
        match numbers.filter(|_| is_number(value.get())) {
            Some(numbers) => write!(out, "{}", numbers.number(value.get()))?,
            None => out.write_all(value.get().as_bytes())?,
        }
    }
    out.write_all(if separator == "{" { b"{}" } else { b"}" })
}

/// Returns `true` if a text is an id that links events. 0 and -1, also as an unsigned number, mean
/// "no id".
fn is_number(text: &str) -> bool {
    let number = text.trim_matches('"').parse::<i128>();
    number.is_ok_and(|number| {
        number > 0 && number != i128::from(u32::MAX) && number != i128::from(u64::MAX)
    })
}

/// Returns the arguments of a process metadata event. The name gets the rank as a prefix, and the
/// sort index becomes the new process id.
fn metadata(what: &str, args: &RawValue, rank: u32, process: i64) -> String {
    let changed =
        serde_json::from_str::<serde_json::Value>(args.get()).ok().and_then(|mut args| {
            match what {
                "process_name" => {
                    let name = args.get("name")?.as_str()?;
                    args["name"] = format!("rank {rank} · {name}").into();
                }
                "process_sort_index" => args["sort_index"] = process.into(),
                _ => return None,
            }
            Some(args.to_string())
        });
    changed.unwrap_or_else(|| args.get().to_owned())
}

fn write_microseconds(out: &mut impl Write, nanoseconds: i64) -> io::Result<()> {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let magnitude = nanoseconds.unsigned_abs();
    write!(out, "{sign}{}.{:03}", magnitude / 1000, magnitude % 1000)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::kineto;
    use crate::ranks::RankFacts;

    /// Returns a trace of one rank. By the machine's shared clock, rank 1 began 5 µs after rank 0.
    fn text(rank: u32) -> String {
        let monotonic = 1_000_000 + 5_000 * rank;
        format!(
            r#"{{"distributedInfo":{{"rank": {rank}, "world_size": 2}},"baseTimeNanoseconds":{base},
            "mlprof":{{"cycle":0,"boot_id":"b","clocks":[{{"ts":0.000,"realtime_ns":1,"monotonic_ns":{monotonic},"error_ns":10}}]}},
            "traceEvents":[
            {{"ph":"M","name":"process_name","pid":77,"tid":0,"ts":0,"args":{{"name":"train \"it\""}}}},
            {{"ph":"M","name":"process_sort_index","pid":77,"tid":0,"ts":0,"args":{{"sort_index":5}}}},
            {{"ph":"X","cat":"cpu_op","name":"a,\"b\"","pid":77,"tid":78,"ts":1.500,"dur":2.25,"args":{{"x":[1, 2],"External id":9}}}},
            {{"ph":"s","cat":"ac2g","name":"ac2g","id":4,"pid":77,"tid":78,"ts":1.500}},
            {{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":4,"pid":0,"tid":7,"ts":9.000}},
            {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9.000,"dur":1.000}}
            ],"traceName":"x"}}"#,
            base = 1_000_000 + i64::from(rank) * 7_000_000,
        )
    }

    #[test]
    fn ranks_stand_beside_each_other() {
        let texts = [text(0), text(1)];
        let facts: Vec<RankFacts> = texts
            .iter()
            .enumerate()
            .map(|(rank, text)| {
                let trace = kineto::read(text.as_bytes()).expect("a trace");
                RankFacts::of(format!("r{rank}.json"), &trace)
            })
            .collect();
        let ranks = Ranks::of(&facts).expect("one of each");
        assert_eq!(ranks.files[1].offset.error_ns, Some(20));
        let mut merge = Merge::begin(Vec::new(), &ranks).expect("memory takes all");
        for (placed, text) in ranks.files.iter().zip(&texts) {
            merge.add(placed, text.as_bytes()).expect("a trace");
        }
        let merged = merge.finish().expect("memory takes all");
        let all: Value = serde_json::from_slice(&merged).expect("JSON");
        let events = all["traceEvents"].as_array().expect("a list");
        assert_eq!(events.len(), 12);
        // Equal readings of the machine's clock map to the same moment. Rank 1 is 5 µs later.
        let of = |place: usize, field: &str| events[place][field].clone();
        assert_eq!((of(2, "ts"), of(8, "ts")), (1.5.into(), 6.5.into()));
        assert_eq!((of(2, "pid"), of(5, "pid")), (0.into(), 1.into()));
        assert_eq!((of(8, "pid"), of(11, "pid")), (1000.into(), 1001.into()));
        assert_eq!(events[6]["args"]["name"], "rank 1 · train \"it\"");
        assert_eq!(events[7]["args"]["sort_index"], 1000);
        assert_eq!((of(3, "id"), of(4, "id"), of(9, "id")), (1.into(), 1.into(), 2.into()));
        assert_eq!(
            (&events[2]["args"]["External id"], &events[8]["args"]["External id"]),
            (&1.into(), &2.into())
        );
        // All other fields are unchanged.
        assert_eq!(
            (of(8, "name"), &events[8]["args"]["x"]),
            ("a,\"b\"".into(), &events[2]["args"]["x"])
        );
        assert_eq!(events[2]["args"]["x"], serde_json::json!([1, 2]));
        assert_eq!(all["mlprof"]["ranks"][1]["offset"]["method"], "machine_clock");
    }

    #[test]
    fn other_files_are_reported() {
        let facts = RankFacts::of("r0", &kineto::read(text(0).as_bytes()).expect("a trace"));
        let ranks = Ranks::of(&[facts]).expect("one");
        let mut merge = Merge::begin(Vec::new(), &ranks).expect("memory takes all");
        let error = merge.add(&ranks.files[0], &b"{\"a\":1}"[..]).expect_err("no trace");
        assert!(matches!(error, Error::NoTrace(_)), "{error}");
    }
}
