//! Measures the cost of one scope, for mlprof and other profilers, in one process on 1, 2 and 8
//! threads.

use std::path::PathBuf;
use std::process::ExitCode;

use benches::conditions::Conditions;
use benches::harness::{self, Plan};
use benches::results::{Figure, figures, table};
use benches::subjects;
use benches::{settings, thread_counts};

const USAGE: &str = "\
Measures the cost of a scope, compared with the floor and other profilers.

Usage: scopes [--json FILE] [--threads 1,2,8] [--rounds N] [--check]

  --json FILE     also write the figures as JSON: a list of
                  {\"name\", \"threads\", \"median_ns\", \"floor_ratio\"}
  --threads LIST  numbers of parallel threads [default: 1,2,8]
  --rounds N      number of rounds per subject [default: 60]
  --check         exit with 1 if a budget is exceeded
";

/// Share of time without a core above which a note is printed.
const BUSY: f64 = 0.05;

struct Options {
    json: Option<PathBuf>,
    threads: Vec<usize>,
    plan: Plan,
    check: bool,
}

fn options() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;

    let mut options =
        Options { json: None, threads: vec![1, 2, 8], plan: Plan::default(), check: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("threads") => options.threads = thread_counts(&parser.value()?.string()?)?,
            Long("rounds") => options.plan.rounds = parser.value()?.parse::<usize>()?.max(1),
            Long("check") => options.check = true,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    // SAFETY: no other thread is running yet that could access the environment concurrently.
    unsafe { std::env::set_var("HOTPATH_METRICS_SERVER_OFF", "1") };
    let options = match settings(options(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let figures = measure(&options);
    println!("\n{}", table(&figures));
    if let Some(path) = &options.json {
        if let Err(error) = write_json(path, &figures) {
            eprintln!("error: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        println!("figures written to {}", path.display());
    }
    let exceeded = figures.iter().any(|figure| figure.is_within_budget == Some(false));
    if options.check && exceeded { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn measure(options: &Options) -> Vec<Figure> {
    let Plan { rounds, slices, scopes, .. } = options.plan;
    let conditions = Conditions::here();
    print!("{conditions}");
    println!(
        "method: medians of {rounds} interleaved rounds of {slices} slices of {scopes} scopes"
    );
    println!("        per thread, wall time including the loop; × is the multiple of the floor");
    println!("        (two readings of the counter and a push) on as many threads");
    if options.threads.iter().any(|threads| *threads > conditions.cores()) {
        println!("        more threads than cores: threads share cores, in much shorter slices");
    }
    let subjects = subjects::all();
    let names: Vec<&'static str> = subjects.iter().map(|subject| subject.name()).collect();
    let mut all = Vec::new();
    for threads in &options.threads {
        let measured = harness::measure(&subjects, *threads, options.plan);
        let without_core = measured.without_core.filter(|_| *threads <= conditions.cores());
        if let Some(share) = without_core.filter(|share| *share > BUSY) {
            println!(
                "note:   with {threads} thread(s), other programs used the cores for {:.0} % of the time, so",
                share * 100.0
            );
            println!("        threads did not run in parallel; measure again on a quiet machine");
        }
        all.extend(figures(&names, &measured.medians, *threads));
    }
    all
}

fn write_json(path: &std::path::Path, figures: &[Figure]) -> std::io::Result<()> {
    let json = serde_json::to_string_pretty(figures)?;
    std::fs::write(path, json + "\n")
}
