//! Sample reports for rendering.

use mlprof_core::Stage;
use mlprof_core::report::advanced::{
    ActionProfile, ActionProfileParts, CallStatistics, CallStatisticsParts, CallerStatisticsParts,
    FunctionKey, FunctionKeyParts, FunctionStatistics, FunctionStatisticsParts,
};
use mlprof_core::report::simple::{
    ActionStatistics, ActionStatisticsParts, DurationStatisticsParts, SimpleReport,
    SimpleReportParts, ThreadStatisticsParts,
};
use mlprof_core::report::{
    AdvancedReport, AdvancedReportParts, OpenAction, OpenActionParts, OverheadParts, ReportHeader,
    ReportHeaderParts, SCHEMA_VERSION, Units,
};

pub fn header(stage: Option<Stage>, wall_seconds: f64) -> ReportHeader {
    ReportHeaderParts {
        schema_version: SCHEMA_VERSION,
        units: Units::default(),
        stage,
        rank: 0,
        world_size: 1,
        started_at: "2026-01-02T03:04:05Z".parse().expect("a date"),
        wall_seconds,
        build: None,
        program: None,
        machine: None,
        frameworks: Vec::new(),
        startup: None,
        overhead: OverheadParts { scopes: 123_456, seconds_per_scope: 45e-9 }.build(),
        settings: Vec::new(),
        notes: Vec::new(),
    }
    .build()
}

pub fn simple(stage: Option<Stage>, wall: f64, actions: Vec<ActionStatistics>) -> SimpleReport {
    SimpleReportParts {
        header: header(stage, wall),
        actions,
        threads: Vec::new(),
        open: Vec::new(),
        data_waiting: None,
        device_regions: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    }
    .build()
}

/// Returns the row of an action with these durations.
pub fn row(action: &str, durations: &[f64]) -> ActionStatistics {
    let total_seconds = durations.iter().sum();
    let (first, rest) = durations.split_first().expect("at least one call");
    let mut sorted = rest.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    ActionStatisticsParts {
        action: action.to_owned(),
        sub_stage: None,
        inside: None,
        calls: durations.len() as u64,
        total_seconds,
        self_seconds: total_seconds,
        first_seconds: *first,
        rest: (!rest.is_empty()).then(|| {
            DurationStatisticsParts {
                min_seconds: quantile(0.0),
                mean_seconds: rest.iter().sum::<f64>() / rest.len() as f64,
                p50_seconds: quantile(0.5),
                p50_limits: None,
                p95_seconds: quantile(0.95),
                max_seconds: quantile(1.0),
            }
            .build()
        }),
        io: None,
        cpu: None,
        device: None,
    }
    .build()
}

fn with_self(mut row: ActionStatistics, self_seconds: f64) -> ActionStatistics {
    row.self_seconds = self_seconds;
    row
}

/// Returns a training run with a loader thread pool, as a recorder would report it.
pub fn training_run() -> SimpleReport {
    let steps = |first: f64, other: f64, count: usize| {
        let mut durations = vec![first];
        durations.extend((1..count).map(|step| other * (0.8 + 0.4 * (step % 11) as f64 / 10.0)));
        durations
    };
    let batches = row("run_training_batch", &steps(0.91, 0.0048, 2_400));
    let forward = row("[TrainStep]DigitsCnn.training_step", &steps(0.41, 0.0031, 2_400));
    let optimizer = row("optimizer_step", &steps(0.27, 0.0011, 2_400));
    let loader = row("[TrainingEpochLoop].train_dataloader_next", &steps(0.012, 41e-6, 2_400));
    let sum: f64 = [&forward, &optimizer].iter().map(|row| row.total_seconds).sum();
    let batches_self = batches.total_seconds - sum;
    let fit_start = row("on_fit_start", &[17e-9]);
    let checkpoint = row("save_checkpoint", &steps(0.0041, 0.0037, 3));
    let mut sanity = row("validation_step", &[0.2, 0.011]);
    sanity.sub_stage = Some(Stage::SanityCheck);
    let main = vec![
        with_self(batches, batches_self),
        forward,
        optimizer,
        sanity,
        loader,
        checkpoint,
        fit_start,
    ];
    let decode = row("decode_sample", &steps(0.0009, 95e-6, 154_000));
    let mut all = vec![decode.clone()];
    all.extend(main.iter().cloned());
    SimpleReportParts {
        header: header(Some(Stage::Fit), 13.37),
        actions: all,
        threads: vec![
            ThreadStatisticsParts {
                thread: "data-loader".into(),
                threads: 4,
                actions: vec![decode],
            }
            .build(),
            ThreadStatisticsParts { thread: "main".into(), threads: 1, actions: main }.build(),
        ],
        open: Vec::new(),
        data_waiting: None,
        device_regions: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    }
    .build()
}

pub fn open(action: &str, thread: &str, elapsed_seconds: f64) -> OpenAction {
    OpenActionParts { action: action.to_owned(), thread: thread.to_owned(), elapsed_seconds }
        .build()
}

pub fn key(file: &str, line: u32, name: &str) -> FunctionKey {
    FunctionKeyParts { file: file.to_owned(), line, name: name.to_owned() }.build()
}

pub fn calls(total: u64, primitive: u64, own: f64, cumulative: f64) -> CallStatistics {
    CallStatisticsParts {
        polls: 0,
        total_calls: total,
        primitive_calls: primitive,
        self_seconds: own,
        cumulative_seconds: cumulative,
    }
    .build()
}

pub fn function(
    function: &FunctionKey,
    calls: CallStatistics,
    callers: &[(&FunctionKey, CallStatistics)],
) -> FunctionStatistics {
    let caller = |(caller, calls): &(&FunctionKey, CallStatistics)| {
        CallerStatisticsParts { caller: (*caller).clone(), calls: *calls }.build()
    };
    FunctionStatisticsParts {
        function: function.clone(),
        calls,
        callers: callers.iter().map(caller).collect(),
    }
    .build()
}

/// Returns an action with a recursive function, a span, and many small functions below it.
pub fn profile() -> ActionProfile {
    let action = key("~", 0, "run_training_batch");
    let forward = key("src/model/net.rs", 12, "DigitsCnn::forward");
    let recursive = key("src/tree.rs", 42, "fetch");
    let span = key("~", 0, "<burn::fusion>");
    let mut functions = vec![
        function(&action, calls(2_400, 2_400, 0.375, 18.887), &[]),
        function(
            &recursive,
            calls(3_752, 1_876, 0.0114, 18.2505),
            &[
                (&action, calls(1_876, 1_876, 0.01, 18.25)),
                (&recursive, calls(1_876, 0, 0.0014, 9.0)),
            ],
        ),
        function(&forward, calls(7_u64.pow(12), 7_u64.pow(12), 11.5, 11.75), &[]),
        function(&span, calls(3, 3, 0.0005, 0.0005), &[(&forward, calls(3, 3, 0.0005, 0.0005))]),
        function(&key("src/never.rs", 1, "entered"), calls(0, 0, 0.0, 0.0), &[]),
    ];
    for number in 0..70_u32 {
        let small = key("src/ops.rs", 100 + number, &format!("op_{number}"));
        let own = f64::from(number % 7) * 0.0625;
        let count = u64::from(number) + 1;
        functions.push(function(
            &small,
            calls(count, count, own, own),
            &[(&forward, calls(count, count, own, own))],
        ));
    }
    ActionProfileParts {
        action: "run_training_batch".into(),
        sub_stage: None,
        calls: 2_400,
        total_seconds: 18.887,
        functions,
        device: None,
    }
    .build()
}

pub fn advanced(actions: Vec<ActionProfile>) -> AdvancedReport {
    AdvancedReportParts {
        header: header(Some(Stage::Fit), 20.0),
        actions,
        threads: Vec::new(),
        open: Vec::new(),
        samples: None,
        device_regions: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    }
    .build()
}

/// Content of a golden file's JSON.
#[derive(serde::Deserialize)]
pub struct Golden {
    pub stage: Option<Stage>,
    pub wall_s: f64,
    pub extended: bool,
    #[serde(deserialize_with = "in_order")]
    pub durations_s: Vec<(String, Vec<f64>)>,
}

/// Deserialises a JSON object's entries in the order of the file.
fn in_order<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, Vec<f64>)>, D::Error> {
    struct Entries;
    impl<'de> serde::de::Visitor<'de> for Entries {
        type Value = Vec<(String, Vec<f64>)>;
        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object of lists")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }
    deserializer.deserialize_map(Entries)
}
