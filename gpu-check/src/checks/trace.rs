//! Checks the trace of burn's steps with other readers, and saves files of the run.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Shared;
use super::burn::Steps;
use crate::options::Options;
use crate::outcome::Row;
use crate::python;

const ANALYSES: &str = include_str!("../../python/analyses.py");
const RULES: &str = include_str!("../../python/rules.py");

pub fn run(options: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let steps = shared.steps()?;
    if let Some(error) = &steps.recorded.recording.trace_error {
        return Err(error.clone());
    }
    let any_python = options.trace_reader.as_deref().unwrap_or(Path::new("python3"));
    let mut rows = vec![rules(any_python, steps)?];
    let name = "trace: HolisticTraceAnalysis";
    rows.push(match &options.trace_reader {
        None => {
            let why = "no Python with HolisticTraceAnalysis; give one with --trace-reader";
            Row::not_run(name, why)
        }
        Some(python) => analyses(name, python, steps)?,
    });
    if let Some(folder) = &options.fixtures {
        rows.push(keep(folder, steps)?);
    }
    Ok(rows)
}

/// Checks the rules that every kernel must satisfy.
fn rules(python: &Path, steps: &Steps) -> Result<Row, String> {
    let answer = python::ask(python, RULES, &[steps.folder.path()])?;
    let number = |name| python::number(&answer, name);
    let (kernels, too_early) = (number("kernels")?, number("too_early")?);
    let without = number("without_launch")?;
    let measured = format!(
        "{kernels} kernels; {too_early} begin before their launch, {without} without a launch"
    );
    let is_good = kernels > 0.0 && too_early == 0.0 && without == 0.0;
    Ok(Row::decided("trace: launches and kernels", measured, "at least one, none, none", is_good))
}

fn analyses(name: &str, python: &Path, steps: &Steps) -> Result<Row, String> {
    let answer = python::ask(python, ANALYSES, &[steps.folder.path()])?;
    let Value::Object(lengths) = &answer else {
        return Err(format!("unexpected output of the analyses: {answer}"));
    };
    let words: Vec<String> =
        lengths.iter().map(|(analysis, rows)| format!("{analysis}: {rows}")).collect();
    let is_good = !lengths.is_empty() && lengths.values().all(|rows| rows.as_u64() > Some(0));
    let measured = format!("rows of each analysis: {}", words.join(", "));
    Ok(Row::decided(name, measured, "at least one in each", is_good))
}

/// Copies files that later tests may use as fixtures.
fn keep(folder: &Path, steps: &Steps) -> Result<Row, String> {
    let explain = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(explain)?;
    let trace = steps.folder.path().join("worker0.1.pt.trace.json.gz");
    fs::copy(trace, folder.join("burn-cuda.pt.trace.json.gz")).map_err(explain)?;
    fs::write(folder.join("burn-cuda.txt"), &steps.recorded.text).map_err(explain)?;
    let report = serde_json::to_vec_pretty(&steps.recorded.report)
        .map_err(|error| format!("the report: {error}"))?;
    fs::write(folder.join("burn-cuda.json"), report).map_err(explain)?;
    Ok(Row::info("fixtures", format!("kept in {}", folder.display())))
}
