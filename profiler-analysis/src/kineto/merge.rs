//! Several ranks' traces as one: what a viewer that opens one file shows of all of them.
//!
//! Events are handed on as they stand, but for three things: their times, which are those of the first rank;
//! their processes, of which each rank has numbers of its own and names that begin with `rank 3`; and the
//! numbers of arrows. *Streaming*: no event is kept.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::event::Key;
use super::stream::parse;
use super::time::moment;
use super::walk::{Visit, walk};
use super::{ReadError, foreign};
use crate::ranks::{Placed, Ranks};

/// So many processes of a rank have numbers that follow each other.
const PROCESSES: i64 = 1000;

/// A trace of several ranks that is being written.
pub struct Merge<W> {
    out: W,
    base_ns: i64,
    events: u64,
    files: u64,
    /// Numbers for processes of ranks that have too many of them.
    next: i64,
}

/// An event's fields as they stand.
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
    /// A field as it stands, without the quotes of a text.
    fn text(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(field, _)| field == name)?;
        Some(value.get().trim_matches('"'))
    }
}

/// One file on its way into the others.
struct File<'a, W> {
    merge: &'a mut Merge<W>,
    placed: &'a Placed,
    /// The new numbers of its processes, by the texts of the old ones.
    processes: FxHashMap<String, i64>,
    failure: Option<io::Error>,
}

impl<W: Write> Merge<W> {
    /// Begins a trace of these ranks.
    ///
    /// # Errors
    ///
    /// What `out` says.
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
        Ok(Self { out, base_ns, events: 0, files: 0, next })
    }

    /// Adds the events of one file.
    ///
    /// # Errors
    ///
    /// If it is no trace, or nothing can be written. What is read of it before that is in the trace.
    pub fn add(&mut self, placed: &Placed, text: impl Read) -> Result<(), ReadError> {
        self.files += 1;
        let mut file = File { merge: self, placed, processes: FxHashMap::default(), failure: None };
        let walked = walk(text, &mut file)?;
        match file.failure.take() {
            Some(error) => Err(error.into()),
            None if walked.is_trace => Ok(()),
            None => Err(ReadError::NoTrace(foreign::reason(&walked.fields, &walked.begins))),
        }
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// What `out` says.
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
            // After an error nothing more is written.
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
        let has_number = matches!(phase, "s" | "t" | "f" | "b" | "n" | "e");
        let out = &mut self.merge.out;
        out.write_all(first.as_bytes())?;
        for (place, (name, value)) in fields.0.iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, name)?;
            out.write_all(b":")?;
            match (&**name, process) {
                ("pid", Some(process)) => write!(out, "{process}")?,
                ("ts", _) => match moment(Some(value)).ok() {
                    Some(time) => {
                        let time = self.placed.base_ns.saturating_add(time);
                        let time = self.placed.offset.apply(time);
                        write_microseconds(out, time.saturating_sub(self.merge.base_ns))?;
                    }
                    None => out.write_all(value.get().as_bytes())?,
                },
                ("id", _) if has_number => {
                    let number = value.get().trim_matches('"');
                    serde_json::to_writer(&mut *out, &format!("{}:{number}", self.merge.files))?;
                }
                ("args", Some(process)) if phase == "M" => {
                    let args = metadata(what, value, self.placed.rank, process);
                    out.write_all(args.as_bytes())?;
                }
                _ => out.write_all(value.get().as_bytes())?,
            }
        }
        out.write_all(b"}")
    }

    /// The number that a process has among all ranks'.
    fn process(&mut self, text: &str) -> i64 {
        if let Some(number) = self.processes.get(text) {
            return *number;
        }
        let own = self.processes.len() as i64; // fewer than events
        let number = match own < PROCESSES {
            true => i64::from(self.placed.rank) * PROCESSES + own,
            false => {
                self.merge.next += 1;
                self.merge.next - 1
            }
        };
        self.processes.insert(text.to_owned(), number);
        number
    }
}

/// What is said of a process: its name with the rank before it, its place among the others by its number.
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

    /// Rank 1 began 5 µs later on the machine's clock that both have.
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
        // What was read of the machine's clock at the same moment is the same moment: rank 1 is 5 µs later.
        let of = |place: usize, field: &str| events[place][field].clone();
        assert_eq!((of(2, "ts"), of(8, "ts")), (1.5.into(), 6.5.into()));
        assert_eq!((of(2, "pid"), of(5, "pid")), (0.into(), 1.into()));
        assert_eq!((of(8, "pid"), of(11, "pid")), (1000.into(), 1001.into()));
        assert_eq!(events[6]["args"]["name"], "rank 1 · train \"it\"");
        assert_eq!(events[7]["args"]["sort_index"], 1000);
        assert_eq!(
            (of(3, "id"), of(4, "id"), of(9, "id")),
            ("1:4".into(), "1:4".into(), "2:4".into())
        );
        // All else is as it was.
        assert_eq!((of(8, "name"), of(8, "args")), ("a,\"b\"".into(), events[2]["args"].clone()));
        assert_eq!(events[2]["args"]["x"], serde_json::json!([1, 2]));
        assert_eq!(all["mlprof"]["ranks"][1]["offset"]["method"], "machine_clock");
    }

    #[test]
    fn what_is_no_trace_is_said() {
        let facts = RankFacts::of("r0", &kineto::read(text(0).as_bytes()).expect("a trace"));
        let ranks = Ranks::of(&[facts]).expect("one");
        let mut merge = Merge::begin(Vec::new(), &ranks).expect("memory takes all");
        let error = merge.add(&ranks.files[0], &b"{\"a\":1}"[..]).expect_err("no trace");
        assert!(matches!(error, ReadError::NoTrace(_)), "{error}");
    }
}
