//! Rule `baseline-cpu`: a program compiled for the baseline processor runs on a processor with
//! wider instructions.

use mlprof_events::ActionKind;

use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};
use crate::tensor::{KeyAverage, TensorReport};
use crate::{BuildSettings, Report};

pub(super) static RULE: Rule = Rule {
    name: "baseline-cpu",
    condition: "loops of the program or of candle take long, and the processor has wider \
                instructions than they were compiled for",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.2,
            why: "minimum share of the recorded steps for loops over numbers",
        },
        Threshold {
            name: "seconds-per-call",
            default: 10e-6,
            why: "minimum mean duration of a call in seconds: shorter calls spend most of their \
                  time outside loops, so wider instructions hardly shorten them",
        },
    ],
    is_of_time: true,
    examine,
};

/// Instruction set that the compiler uses for wider loops: 32 bytes at once, compared with 16 bytes
/// in the baseline. Even with AVX-512, LLVM uses 32 bytes unless it is configured otherwise
/// (`prefer-256-bit`).
const WIDER: &str = "avx2";

/// Part of a loop's time that instructions of twice the width save.
const SAVED: f64 = 0.5;

/// Prefix of ops that are written in Rust and compiled with the program.
const OWN_OPS: &str = "candle::";

/// Parts of the names of ops that select their instructions at run time.
const CHOOSE: [&str; 4] = ["matmul", "conv", "gemm", "attention"];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Tensor(report) = facts.report else {
        return Outcome::no_inputs("only the Tensor profiler's report has ops");
    };
    let Some(build) = report.header.build.as_ref() else {
        return Outcome::no_inputs("the report does not contain the build settings of the program");
    };
    if build.processor_features.is_empty() {
        return Outcome::no_inputs("the report does not contain the processor's features");
    }
    let own = || facts.ops().iter().filter(|row| is_own_loop(row));
    if own().next().is_none() {
        return Outcome::no_inputs(
            "the report has no ops of the program's own code: run it under `mlprof run` for \
             candle's ops, or mark functions with `#[profiled]`",
        );
    }
    let mean = |row: &KeyAverage| row.self_cpu_seconds / row.calls.max(1) as f64;
    let long = || own().filter(|row| mean(row) >= limits[1]);
    let seconds: f64 = long().map(|row| row.self_cpu_seconds).sum();
    let in_all: f64 = own().map(|row| row.self_cpu_seconds).sum();
    let has_wider = |features: &[String]| features.iter().any(|known| known == WIDER);
    let compiled = has_wider(&build.target_features);
    let in_halves =
        build.processor_features.iter().any(|known| known == BuildSettings::AVX2_IN_HALVES);
    let able = has_wider(&build.processor_features) && !in_halves;
    let shown = |has: bool| if has { WIDER } else { "none" };
    let evidence = [
        Evidence::new("loops", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
        Evidence::new("short calls, not counted", duration(in_all - seconds)),
        Evidence::new("wide instructions in the build", shown(compiled)),
        Evidence::new(
            "wide instructions in the processor",
            if in_halves { "executed in halves" } else { shown(able) },
        ),
    ];
    let longest =
        long().max_by(|one, other| one.self_cpu_seconds.total_cmp(&other.self_cpu_seconds));
    let is_less = able && !compiled && facts.share(seconds) >= limits[0];
    let Some(longest) = longest.filter(|_| is_less) else { return Outcome::healthy(evidence) };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} took {} ({}), compiled without {WIDER}, which this processor supports.{}",
            whose(long()),
            duration(seconds),
            share(facts.share(seconds), 1.0),
            by_hand(report, long()),
        ),
        evidence: evidence.into(),
        place: place_of_op(longest),
        cost: facts.estimated_cost(seconds * SAVED),
        // Wider instructions do not help loops that are limited by memory or divisions, or that the
        // compiler cannot vectorize.
        confidence: Confidence::Hint,
        remedy: "compile for the processor that runs the program: set `RUSTFLAGS=\"-C \
                 target-cpu=native\"`, or `rustflags` in `.cargo/config.toml`."
            .to_owned(),
    }])
}

/// Returns text that names the owner of the loops in these rows.
fn whose<'a>(rows: impl Iterator<Item = &'a KeyAverage>) -> &'static str {
    let (ops, functions): (Vec<_>, Vec<_>) = rows.partition(|row| row.kind == ActionKind::Op);
    match (ops.is_empty(), functions.is_empty()) {
        (false, true) => "candle's loops over numbers",
        (false, false) => "Loops over numbers in candle and in the program",
        (true, _) => "The program's own loops",
    }
}

/// Returns a sentence about candle's handwritten kernels if the header lists these instructions for
/// candle.
fn by_hand<'a>(
    report: &TensorReport,
    mut rows: impl Iterator<Item = &'a KeyAverage>,
) -> &'static str {
    let mut candle = report.header.frameworks.iter().filter(|known| known.name == "candle");
    let uses_wider = candle.any(|known| known.features.iter().any(|feature| feature == WIDER));
    if uses_wider && rows.any(|row| row.kind == ActionKind::Op) {
        " candle uses these instructions only in handwritten kernels, which these ops do not have."
    } else {
        ""
    }
}

fn is_own_loop(row: &KeyAverage) -> bool {
    let is_own = match row.kind {
        ActionKind::Function => true,
        ActionKind::Op => row.name.starts_with(OWN_OPS),
        _ => false,
    };
    is_own && !row.is_on_device && !CHOOSE.iter().any(|part| row.name.contains(part))
}

#[cfg(test)]
mod tests {
    use mlprof_events::ActionKind;

    use crate::BuildSettings;
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};
    use crate::tensor::{KeyAverage, TensorReport};

    const NAME: &str = "baseline-cpu";

    fn built(rows: Vec<KeyAverage>, compiled: &[&str], able: &[&str]) -> TensorReport {
        let names = |features: &[&str]| features.iter().map(|name| (*name).to_owned()).collect();
        let mut report = recorded(rows);
        report.header.build = Some(BuildSettings {
            opt_level: "3".to_owned(),
            target_features: names(compiled),
            processor_features: names(able),
            ..BuildSettings::default()
        });
        report
    }

    fn loops(seconds: f64) -> Vec<KeyAverage> {
        vec![op("candle::matmul", 500, 0.5), op("candle::exp", 500, seconds)]
    }

    #[test]
    fn loops_of_a_program_for_any_processor_are_found() {
        let finding = found(NAME, built(loops(0.8), &[], &["avx2", "fma"]));
        close(finding.cost.seconds, 0.4, 0.001);
        assert_eq!(finding.confidence, Confidence::Hint);
        assert_eq!(finding.place.op.as_deref(), Some("candle::exp"));
        assert!(finding.remedy.contains("target-cpu=native"), "{finding:?}");
        let wider = ["avx2", "fma", "avx512f"];
        close(found(NAME, built(loops(0.8), &[], &wider)).cost.seconds, 0.4, 0.001);
    }

    #[test]
    fn loops_are_said_to_be_those_of_who_has_written_them() {
        let able = ["avx2", "fma"];
        let mut report = built(loops(0.8), &[], &able);
        report.header.frameworks.push(mlprof_events::Framework {
            name: "candle".to_owned(),
            features: vec!["avx2".to_owned(), "f16c".to_owned()],
            ..mlprof_events::Framework::default()
        });
        let sentence = found(NAME, report.clone()).sentence;
        assert!(sentence.starts_with("candle's loops over numbers took 800 ms"), "{sentence}");
        assert!(sentence.contains("candle uses these instructions only"), "{sentence}");
        let function =
            |seconds| KeyAverage { kind: ActionKind::Function, ..op("app::softmax", 500, seconds) };
        let sentence = found(NAME, built(vec![function(0.8)], &[], &able)).sentence;
        assert!(sentence.starts_with("The program's own loops took"), "{sentence}");
        assert!(!sentence.contains("candle"), "{sentence}");
        report.key_averages.rows.push(function(0.4));
        let sentence = found(NAME, report).sentence;
        assert!(sentence.starts_with("Loops over numbers in candle and in the program took"));
    }

    #[test]
    fn calls_of_a_few_microseconds_are_not_counted() {
        let able = ["avx2", "fma"];
        // Each call takes 2 µs. The share exceeds the threshold, but hardly any of this time is
        // spent in loops.
        let tiny = KeyAverage { kind: ActionKind::Function, ..op("app::scaled", 400_000, 0.8) };
        healthy(NAME, built(vec![tiny.clone()], &[], &able));
        let finding = found(NAME, built(vec![tiny, op("candle::exp", 500, 0.6)], &[], &able));
        close(finding.cost.seconds, 0.3, 0.001);
        assert_eq!(finding.place.op.as_deref(), Some("candle::exp"));
        let short = finding.evidence.iter().find(|one| one.what.starts_with("short calls"));
        assert_eq!(short.map(|one| &*one.value), Some("800 ms"));
    }

    #[test]
    fn one_compiled_for_its_processor_is_not_nor_one_whose_loops_are_short() {
        healthy(NAME, built(loops(0.8), &["avx2", "fma"], &["avx2", "fma"]));
        healthy(NAME, built(loops(0.8), &["avx2"], &["avx2", "avx512f"]));
        healthy(NAME, built(loops(0.1), &[], &["avx2", "fma"]));
        healthy(NAME, built(loops(0.8), &[], &["avx2", BuildSettings::AVX2_IN_HALVES]));
        let others = vec![op("aten::exp", 500, 0.8)];
        assert!(missing(NAME, built(others, &[], &["avx2"])).contains("own code"));
        assert!(missing(NAME, built(loops(0.8), &[], &[])).contains("processor's features"));
        assert!(missing(NAME, recorded(loops(0.8))).contains("build settings"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }
}
