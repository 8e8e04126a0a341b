//! Parses the config of a dynolog request: lines `KEY=VALUE`, parsed as in libkineto.
//!
//! *Source*: libkineto's `Config.cpp`, `AbstractConfig.cpp` and `AsyncActivityProfilerHandler.cpp`.
//! As in libkineto, unknown keys are ignored. Keys without a meaning in mlprof are also ignored. If
//! a value cannot be parsed, the whole request is rejected.

use std::path::{Path, PathBuf};

use mlprof_core::report::internals::counted;
use mlprof_events::live::RecordRequest;

/// Default duration of a recording in milliseconds.
const DURATION: u64 = 500;

/// Maximum age of a requested start in milliseconds. Older requests are rejected as too late.
const OLDEST_START: u64 = 10_000;

/// Activity types that need neither ops nor device work.
const WITHOUT_OPS: [&str; 4] =
    ["user_annotation", "python_function", "cpu_instant_event", "overhead"];

/// Allowed locations of a trace, and the process that is recorded.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Folders in which traces may be written, including their subfolders.
    pub(super) folders: Vec<PathBuf>,
    pub(super) process: u32,
}

/// Recording request from dynolog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) path: PathBuf,
    /// Number of steps to record; 0 for a recording of a fixed time.
    iterations: u64,
    warmup: Option<u64>,
    start_iteration: Option<u64>,
    round_up: Option<u64>,
    milliseconds: u64,
    start: Option<u64>,
    ops: bool,
    shapes: bool,
    memory: bool,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl Order {
    /// Parses a config. `now` is the current time in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// Returns an error message if a value cannot be parsed.
    pub(super) fn read(text: &str, place: &Place, now: u64) -> Result<Self, String> {
        let mut order = Self {
            path: default_path(place.process),
            iterations: 0,
            warmup: None,
            start_iteration: None,
            round_up: None,
            milliseconds: DURATION,
            start: None,
            ops: true,
            shapes: false,
            memory: false,
            notes: Vec::new(),
        };
        let mut is_empty = true;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(format!("{line:?} does not have the form KEY=VALUE"));
            };
            let (key, value) = (key.trim(), value.trim());
            let taken = order.take(key, value, place, now);
            is_empty &= !taken.map_err(|why| format!("{key}={value}: {why}"))?;
        }
        if is_empty { Err("the request has no known key".to_owned()) } else { Ok(order) }
    }

    /// Applies one key, and returns `true` if the key is known.
    fn take(&mut self, key: &str, value: &str, place: &Place, now: u64) -> Result<bool, String> {
        match key {
            "ACTIVITIES_LOG_FILE" => self.write_to(value, place),
            "ACTIVITIES_DURATION_SECS" => self.milliseconds = number(value)?.saturating_mul(1000),
            "ACTIVITIES_DURATION_MSECS" => self.milliseconds = number(value)?,
            "ACTIVITIES_ITERATIONS" => self.iterations = number(value)?,
            "ACTIVITIES_WARMUP_ITERATIONS" => self.warmup = Some(number(value)?),
            "PROFILE_START_ITERATION" => self.start_iteration = number_or_none(value)?,
            "PROFILE_START_ITERATION_ROUNDUP" => {
                self.round_up = number_or_none(value)?.filter(|multiple| *multiple > 0);
            }
            "PROFILE_START_TIME" => {
                let start = value
                    .parse()
                    .map_err(|_| "the value is not a time in milliseconds".to_owned())?;
                self.start = Some(start).filter(|start| *start > 0);
                if self.start.is_some_and(|start| now.saturating_sub(start) > OLDEST_START) {
                    let seconds = OLDEST_START / 1000;
                    return Err(format!("the time is more than {seconds} s in the past"));
                }
            }
            "ACTIVITY_TYPES" => {
                let mut kinds = value.split(',').map(|kind| kind.trim().to_ascii_lowercase());
                let mut kinds_with_ops =
                    kinds.by_ref().filter(|it| !it.is_empty() && !WITHOUT_OPS.contains(&&**it));
                // An empty list selects all types.
                self.ops = kinds_with_ops.next().is_some() || value.is_empty();
            }
            "PROFILE_REPORT_INPUT_SHAPES" | "CLIENT_INTERFACE_ENABLE_OP_INPUTS_COLLECTION" => {
                self.shapes = switch(value)?;
            }
            "PROFILE_PROFILE_MEMORY" => self.memory = switch(value)?,
            "ACTIVITIES_ENABLED" if !switch(value)? => {
                return Err("activities are disabled".to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets the path that `dyno gputrace` prints, in which `.json` is replaced by
    /// `_{process}.json`.
    fn write_to(&mut self, value: &str, place: &Place) {
        let path = value.replace(".json", &format!("_{}.json", place.process));
        if is_allowed(Path::new(&path), place) {
            self.path = path.into();
            return;
        }
        let folders: Vec<_> =
            place.folders.iter().map(|folder| folder.display().to_string()).collect();
        self.notes.push(format!(
            "dynolog requested the file {value}, which is not in {}; set KINETO_ONDEMAND_TRACE_DIR to its \
             folder",
            folders.join(" or ")
        ));
    }

    /// Converts the order to a recording request. `has_steps` must be `true` if the program reports
    /// steps. A program without steps can only be recorded for a fixed time.
    pub(super) fn request(&mut self, has_steps: bool) -> RecordRequest {
        let is_of_steps = self.iterations > 0 && has_steps;
        if self.iterations > 0 && !has_steps {
            self.notes.push(format!(
                "dynolog requested {}, but the program reports no steps, so mlprof recorded it for {} ms",
                counted(self.iterations, "step", "steps"),
                self.milliseconds
            ));
        }
        let of_steps = |value: Option<u64>| value.filter(|_| is_of_steps);
        RecordRequest {
            steps: Some(self.iterations).filter(|_| is_of_steps),
            milliseconds: Some(self.milliseconds).filter(|_| !is_of_steps),
            first_step: of_steps(self.start_iteration),
            exactly: false,
            multiple_of: of_steps(self.round_up),
            warmup: of_steps(self.warmup),
            start_milliseconds: self.start.filter(|_| !is_of_steps),
            ops: self.ops,
            shapes: self.shapes,
            sample: None,
            memory: self.memory,
        }
    }
}

/// Returns libkineto's default path, for configs without an allowed path.
fn default_path(process: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/libkineto_activities_{process}.json"))
}

fn is_allowed(path: &Path, place: &Place) -> bool {
    let climbs = path.to_string_lossy().contains("..");
    let is_below = |folder: &PathBuf| path.starts_with(folder) && path != folder;
    !climbs && place.folders.iter().any(is_below)
}

/// Parses an unsigned number that fits into 32 bits, as libkineto does.
fn number(value: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| *number <= i32::MAX as u64);
    number.ok_or_else(|| format!("the value is not a number from 0 to {}", i32::MAX))
}

/// Parses an optional number. The value -1 stands for an unset one.
fn number_or_none(value: &str) -> Result<Option<u64>, String> {
    if value == "-1" { Ok(None) } else { number(value).map(Some) }
}

fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "1" => Ok(true),
        "n" | "no" | "f" | "false" | "0" => Ok(false),
        _ => Err("the value is neither true nor false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn place() -> Place {
        Place { folders: vec!["/tmp".into(), "/scratch/tmp".into()], process: 4711 }
    }

    fn read(text: &str) -> Result<Order, String> {
        Order::read(text, &place(), NOW)
    }

    fn wishes(text: &str) -> RecordRequest {
        read(text).expect("a config").request(true)
    }

    #[test]
    fn requests_of_dyno_are_parsed() {
        // This text has the format that `dyno gputrace` writes and the daemon passes on.
        let text = "\n    ACTIVITIES_LOG_FILE=/tmp/trace.json\nPROFILE_START_TIME=0\n\
                    ACTIVITIES_DURATION_MSECS=700\nPROFILE_REPORT_INPUT_SHAPES=true\n\
                    PROFILE_PROFILE_MEMORY=true\nPROFILE_MEMORY=true\nPROFILE_MEMORY_DURATION_MSECS=700\n\
                    PROFILE_WITH_STACK=false\nPROFILE_WITH_FLOPS=false\nPROFILE_WITH_MODULES=false\n    \
                    REQUEST_TRACE_ID=123\n";
        let mut order = read(text).expect("a config");
        assert_eq!(order.path, Path::new("/tmp/trace_4711.json"));
        let expected = RecordRequest {
            milliseconds: Some(700),
            ops: true,
            shapes: true,
            memory: true,
            ..RecordRequest::default()
        };
        assert_eq!((order.request(true), order.notes.len()), (expected, 0));
        let text = "ACTIVITIES_LOG_FILE=/scratch/tmp/a/t.json.gz\nPROFILE_START_ITERATION=0\n\
                    PROFILE_START_ITERATION_ROUNDUP=100\nACTIVITIES_ITERATIONS=3\n\
                    ACTIVITIES_WARMUP_ITERATIONS=2\nACTIVITIES_DURATION_MSECS=700\n";
        assert_eq!(read(text).expect("a config").path, Path::new("/scratch/tmp/a/t_4711.json.gz"));
        let expected = RecordRequest {
            steps: Some(3),
            first_step: Some(0),
            multiple_of: Some(100),
            warmup: Some(2),
            ops: true,
            ..RecordRequest::default()
        };
        assert_eq!(wishes(text), expected, "steps go before a time");
    }

    #[test]
    fn a_program_without_steps_is_recorded_for_a_time() {
        let mut order =
            read("ACTIVITIES_ITERATIONS=3\nPROFILE_START_ITERATION=5").expect("a config");
        let expected =
            RecordRequest { milliseconds: Some(500), ops: true, ..RecordRequest::default() };
        assert_eq!(order.request(false), expected);
        assert!(order.notes[0].ends_with("mlprof recorded it for 500 ms"), "{:?}", order.notes);
    }

    #[test]
    fn missing_keys_have_libkineto_defaults_and_unknown_keys_are_ignored() {
        let text = "# a comment\nNEW_KEY=7\n\n  PROFILE_START_ITERATION=-1 # none\n";
        let expected =
            RecordRequest { milliseconds: Some(500), ops: true, ..RecordRequest::default() };
        assert_eq!(wishes(text), expected);
        let path = read("ACTIVITIES_ITERATIONS=1").expect("a config").path;
        assert_eq!(path, Path::new("/tmp/libkineto_activities_4711.json"));
        assert!(!wishes("ACTIVITY_TYPES= user_annotation,PYTHON_FUNCTION").ops);
        assert!(wishes("ACTIVITY_TYPES=user_annotation, kernel").ops);
        assert_eq!(wishes("ACTIVITIES_DURATION_SECS=2").milliseconds, Some(2000));
        let future = wishes(&format!("PROFILE_START_TIME={}", NOW + 5000));
        assert_eq!(future.start_milliseconds, Some(NOW + 5000));
    }

    #[test]
    fn paths_elsewhere_are_not_written_to() {
        for path in
            ["/etc/trace.json", "trace.json", "/tmp/../etc/t.json", "/tmpfoo/t.json", "/tmp/", ""]
        {
            let order = read(&format!("ACTIVITIES_LOG_FILE={path}")).expect("a config");
            assert_eq!(order.path, Path::new("/tmp/libkineto_activities_4711.json"), "{path}");
            let note = &order.notes[0];
            assert!(note.contains("which is not in /tmp or /scratch/tmp"), "{note}");
        }
    }

    #[test]
    fn bad_values_are_told_in_a_sentence() {
        let error = |text: &str| read(text).expect_err("no config");
        assert_eq!(error("# nothing\nNEW_KEY=7"), "the request has no known key");
        assert_eq!(error("ACTIVITIES"), "\"ACTIVITIES\" does not have the form KEY=VALUE");
        assert_eq!(
            error("ACTIVITIES_ITERATIONS=-3"),
            "ACTIVITIES_ITERATIONS=-3: the value is not a number from 0 to 2147483647"
        );
        assert!(error("ACTIVITIES_DURATION_MSECS=99999999999").contains("not a number from 0"));
        assert!(error("PROFILE_REPORT_INPUT_SHAPES=maybe").ends_with("neither true nor false"));
        assert!(error("ACTIVITIES_ENABLED=false").ends_with("activities are disabled"));
        let old = format!("PROFILE_START_TIME={}", NOW - 10_001);
        assert!(error(&old).ends_with("the time is more than 10 s in the past"));
        assert!(read(&format!("PROFILE_START_TIME={}", NOW - 9_999)).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn no_config_is_too_strange(
            lines in proptest::collection::vec(
                proptest::sample::select(vec![
                    "ACTIVITIES_LOG_FILE", "ACTIVITIES_DURATION_SECS", "ACTIVITIES_ITERATIONS",
                    "ACTIVITIES_WARMUP_ITERATIONS", "PROFILE_START_ITERATION", "PROFILE_START_TIME",
                    "PROFILE_START_ITERATION_ROUNDUP", "ACTIVITY_TYPES", "PROFILE_PROFILE_MEMORY",
                ]),
                0..6,
            ),
            values in proptest::collection::vec(".{0,30}|-?[0-9]{1,20}|/tmp/[a-z./]{1,12}", 6),
        ) {
            let pairs = lines.iter().zip(&values);
            let text: String = pairs.map(|(key, value)| format!("{key}={value}\n")).collect();
            if let Ok(mut order) = read(&text) {
                proptest::prop_assert!(order.path.starts_with("/tmp") || order.path.starts_with("/scratch/tmp"));
                proptest::prop_assert!(!order.path.to_string_lossy().contains(".."));
                let request = order.request(true);
                proptest::prop_assert!(request.steps.is_some() != request.milliseconds.is_some());
                let _ = request.check();
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[ -~\n\u{0}-\u{1f}é#=]{0,120}") {
            let _ = read(&text);
        }
    }
}
