//! Converts reports to the formats of other tools.

use mlprof_events::Stage;
use mlprof_report::advanced::prof;
use mlprof_report::samples::Samples;
use mlprof_report::{AdvancedReport, Report};

use super::format::{Format, OF_CALL_TREES, OF_SUMS};
use super::outputs::{Output, Stem};
use super::stacks::Stacks;
use super::{Arguments, Blocks, Error, impossible, lines_of, speedscope, tell_cut};

/// Converts a report to one output. For `.prof`, an Advanced report yields one output per action.
pub(super) fn of_report(
    report: &Report,
    stage: Option<Stage>,
    arguments: &Arguments,
) -> Result<Vec<Output>, Error> {
    if arguments.to == Format::Json {
        let report = report.clone();
        return Ok(vec![Output::json(Stem::of_stage(stage), report)]);
    }
    let sums = |what: &str, stacks: &Stacks, title: &str| {
        of_stacks(what, stacks, (title, report), stage, arguments).map(|output| vec![output])
    };
    let of_samples = |samples: &Samples| {
        let title =
            if arguments.waiting { "estimated waiting time" } else { "estimated working time" };
        sums("samples", &Stacks::of_samples(samples, arguments.waiting), title)
    };
    match report {
        Report::Advanced(report) if arguments.samples => match &report.samples {
            Some(samples) => of_samples(samples),
            None => Err(impossible(
                "an Advanced report",
                arguments.to,
                "it contains no samples; omit --samples",
                &OF_CALL_TREES,
            )),
        },
        Report::Advanced(report) if arguments.to == Format::Prof => profs(report, stage),
        Report::Advanced(report) => {
            let what = "an Advanced report";
            sums(what, &Stacks::of_report(report), "self time")
        }
        Report::Samples(report) => of_samples(&report.samples),
        Report::Memory(report) => {
            let (tree, title) = match arguments.memory {
                Blocks::Peak => (&report.peak, "memory at the peak"),
                Blocks::Alive => (&report.alive, "live memory at the end"),
                Blocks::Copies => (&report.copies, "large copies"),
            };
            sums("a memory report", &Stacks::of_memory(tree), title)
        }
        other => {
            let (what, reason) = without_stacks(other);
            Err(impossible(what, arguments.to, reason, &[Format::Json]))
        }
    }
}

/// Returns a description of a report that holds no call trees, and the reason why it cannot be
/// converted.
fn without_stacks(report: &Report) -> (&'static str, &'static str) {
    match report {
        Report::Simple(_) => ("a Simple report", "it contains totals per action and no call tree"),
        Report::Tensor(_) => (
            "a Tensor report",
            "it contains only a table; convert the trace next to it (.pt.trace.json.gz)",
        ),
        Report::Lines(_) => ("a lines report", "it contains totals per line and no call tree"),
        Report::Numerics(_) => ("a numerics report", "it contains tensor values and no times"),
        _ => ("this report", "this version does not support this kind of report"),
    }
}

fn profs(report: &AdvancedReport, stage: Option<Stage>) -> Result<Vec<Output>, Error> {
    if report.actions.is_empty() {
        let (what, reason) = ("an Advanced report", "it contains no completed action");
        return Err(impossible(what, Format::Prof, reason, &OF_CALL_TREES));
    }
    let of_action = |action| {
        let bytes = prof::encode(action);
        let stem = Stem::of_stage(stage).of_action(&action.label());
        Output::new(stem, move |out| out.write_all(&bytes))
    };
    Ok(report.actions.iter().map(of_action).collect())
}

/// Converts stacks to folded lines, an SVG or a speedscope file.
fn of_stacks(
    what: &str,
    stacks: &Stacks,
    (title, report): (&str, &Report),
    stage: Option<Stage>,
    arguments: &Arguments,
) -> Result<Output, Error> {
    let (stem, name) = (Stem::of_stage(stage), arguments.file.display());
    let title = match report.header().stage {
        Some(stage) => format!("{title}: {}, {name}", stage.as_str()),
        None => format!("{title}: {name}"),
    };
    let is_sampled_or_memory = !matches!(report, Report::Advanced(_)) || arguments.samples;
    let possible = if is_sampled_or_memory { &OF_SUMS[..] } else { &OF_CALL_TREES[..] };
    match arguments.to {
        Format::Speedscope => {
            tell_cut(stacks);
            Ok(Output::json(stem, speedscope::File::of_stacks(&title, stacks)))
        }
        Format::Folded | Format::Svg => {
            let lines = lines_of(stacks, what, possible, arguments)?;
            Ok(Output::of_lines(stem, lines, title, stacks.unit, arguments))
        }
        _ => Err(impossible(
            what,
            arguments.to,
            "it contains totals and no timeline; the Tensor profiler records timelines",
            possible,
        )),
    }
}
