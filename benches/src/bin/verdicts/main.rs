//! Measures the false positive rate of comparisons of equal runs, and the smallest difference that
//! they detect.

mod chance;
mod runs;
mod training;

use std::path::PathBuf;
use std::process::ExitCode;

use benches::settings;
use mlprof_core::report::comparison::{Comparison, compare, compare_steps};

use self::chance::{Chance, Series};

const USAGE: &str = "\
Counts false alarms in comparisons of equal runs, which are random or real trainings.

Usage: verdicts [--rows N] [--comparisons N] [--only KIND]... [--longest N]
       verdicts --trainings N [--steps N]

  --rows N         rows of each run [default: 300]
  --comparisons N  comparisons of each case, fewer for long runs [default: 200]
  --only KIND      kinds of runs whose names contain KIND [default: all]
  --longest N      steps of the longest runs [default: 4000]
  --trainings N    compare three runs of a training with three others, and one with one, N times
  --steps N        steps of a training [default: 300]
";

/// The value of `--fail-above` in most projects.
const THRESHOLD: f64 = 0.05;

struct Settings {
    rows: usize,
    comparisons: usize,
    only: Vec<String>,
    longest: usize,
    trainings: usize,
    steps: u64,
    /// File for the report of a single training, if this process runs one.
    train: Option<PathBuf>,
}

fn asked() -> Result<Option<Settings>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut settings = Settings {
        rows: 300,
        comparisons: 200,
        only: Vec::new(),
        longest: 4_000,
        trainings: 0,
        steps: 300,
        train: None,
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("rows") => settings.rows = arguments.value()?.parse()?,
            Long("comparisons") => settings.comparisons = arguments.value()?.parse()?,
            Long("only") => settings.only.push(arguments.value()?.parse()?),
            Long("longest") => settings.longest = arguments.value()?.parse()?,
            Long("trainings") => settings.trainings = arguments.value()?.parse()?,
            Long("steps") => settings.steps = arguments.value()?.parse()?,
            Long("train") => settings.train = Some(arguments.value()?.into()),
            Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(settings))
}

fn main() -> ExitCode {
    let settings = match settings(asked(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    if let Some(file) = settings.train {
        return training::train(settings.steps, &file);
    }
    if settings.trainings > 0 {
        return training::compare_trainings(settings.trainings, settings.steps);
    }
    simulate(&settings);
    ExitCode::SUCCESS
}

/// Comparisons and the number of reported slowdowns.
#[derive(Debug, Default, Clone, Copy)]
struct Alarms {
    comparisons: usize,
    /// Comparisons with at least one slower row, among rows with a sufficient share of the run.
    any: usize,
    /// Comparisons with at least one row that is slower by more than the threshold.
    failed: usize,
}

impl Alarms {
    fn count(&mut self, comparison: &Comparison) {
        self.comparisons += 1;
        self.any += usize::from(!comparison.regressions(0.0).is_empty());
        self.failed += usize::from(!comparison.regressions(THRESHOLD).is_empty());
    }

    fn text(&self) -> String {
        let percent = |count: usize| 100.0 * count as f64 / self.comparisons.max(1) as f64;
        format!(
            "{:5.1} % {:5.1} %  of {}",
            percent(self.any),
            percent(self.failed),
            self.comparisons
        )
    }
}

/// Distributions of the steps: dependence, deviation and drift.
const CASES: [(f64, f64, Drift); 11] = [
    (0.0, 0.1, Drift::None),
    (0.0, 0.5, Drift::None),
    (0.5, 0.1, Drift::None),
    (0.5, 0.5, Drift::None),
    (0.9, 0.1, Drift::None),
    (0.9, 0.5, Drift::None),
    (0.0, 0.02, Drift::Slope),
    (0.0, 0.02, Drift::Wave),
    (0.0, 0.02, Drift::Jump),
    (0.5, 0.1, Drift::Slope),
    (0.5, 0.1, Drift::Jump),
];

/// Drift that slows down all steps of a run by up to 20 %. Its amount differs from run to run.
#[derive(Debug, Clone, Copy)]
enum Drift {
    None,
    /// A steady increase.
    Slope,
    /// A periodic change.
    Wave,
    /// A jump at a random time.
    Jump,
}

impl Drift {
    /// Returns the factor at each moment of a run, from 0 to 1.
    fn of_a_run(self, chance: &mut Chance) -> impl Fn(f64) -> f64 + use<> {
        let (one, other) = (chance.part(), chance.part());
        move |moment| match self {
            Self::None => 1.0,
            Self::Slope => 1.0 + 0.2 * one * moment,
            Self::Wave => 1.1 + 0.1 * (std::f64::consts::TAU * (2.0 * moment + other)).sin(),
            Self::Jump if moment < other => 1.0,
            Self::Jump => 1.2,
        }
    }
}

fn simulate(settings: &Settings) {
    let rows = settings.rows;
    println!(
        "Equal runs with {rows} rows each: comparisons in which any row of 1 % or more is slower,"
    );
    println!(
        "and in which one is by more than {:.0} %; then those where each is 10 % slower.",
        100.0 * THRESHOLD
    );
    let is_wanted = |name: &str| {
        settings.only.is_empty() || settings.only.iter().any(|part| name.contains(part.as_str()))
    };
    for (name, pair) in KINDS.into_iter().filter(|(name, _)| is_wanted(name)) {
        println!("\n{name}");
        println!("    n    φ    σ  drift  |   any  > 5 %          | 10 % slower");
        for count in [8, 20, 100, 400, 4_000].into_iter().filter(|it| *it <= settings.longest) {
            let comparisons = (settings.comparisons * 400 / (400 + count)).max(20);
            for (dependence, deviation, drift) in CASES {
                let seed = (count * 1_000) as f64 + 100.0 * dependence + deviation;
                let mut chance = Chance::new(seed.to_bits());
                let (mut equal, mut slower) = (Alarms::default(), Alarms::default());
                for index in 0..comparisons {
                    let series = Series { count, dependence, deviation };
                    equal.count(&pair(rows, series, drift, 1.0, &mut chance));
                    if index % 10 == 0 {
                        slower.count(&pair(rows, series, drift, 1.1, &mut chance));
                    }
                }
                let (alarms, found) = (equal.text(), slower.any * 100 / slower.comparisons);
                println!(
                    "{count:5}  {dependence:.1}  {deviation:4.2}  {:5}  | {alarms:22} | {found:3} %",
                    format!("{drift:?}").to_lowercase()
                );
            }
        }
    }
}

type Pair = fn(usize, Series, Drift, f64, &mut Chance) -> Comparison;

/// Names and functions of the comparisons. The second side is slower than the first by the given
/// factor.
const KINDS: [(&str, Pair); 4] = [
    ("Traces, one against one", |rows, series, drift, times, chance| {
        let mut side = |times| [runs::trace(rows, series, &drift.of_a_run(chance), times, chance)];
        let (before, after) = (side(1.0), side(times));
        compare_steps(&before, &after).expect("of one program")
    }),
    ("Simple reports with steps, one against one", |rows, series, drift, times, chance| {
        let mut side =
            |times| [runs::simple(rows, series, &drift.of_a_run(chance), times, true, chance)];
        let (before, after) = (side(1.0), side(times));
        compare(&before, &after).expect("of one program")
    }),
    ("Simple reports without steps, one against one", |rows, series, _, times, chance| {
        let mut side = |times| [runs::simple(rows, series, &|_| 1.0, times, false, chance)];
        let (before, after) = (side(1.0), side(times));
        compare(&before, &after).expect("of one program")
    }),
    ("Simple reports with steps, three against three, 3 % from run to run", {
        |rows, series, drift, times, chance| {
            let mut side = |times: f64| -> Vec<_> {
                let run = |_| {
                    let times = times * (0.03 * chance.normal()).exp();
                    runs::simple(rows, series, &drift.of_a_run(chance), times, true, chance)
                };
                (0..3).map(run).collect()
            };
            let (before, after) = (side(1.0), side(times));
            compare(&before, &after).expect("of one program")
        }
    }),
];
