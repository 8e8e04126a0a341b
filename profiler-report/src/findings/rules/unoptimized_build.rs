//! The compiler did not optimise.

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};

pub(super) struct UnoptimizedBuild;

impl Rule for UnoptimizedBuild {
    fn name(&self) -> &'static str {
        "unoptimized-build"
    }

    fn condition(&self) -> &'static str {
        "the program was built with opt-level 0 or 1, as `cargo run` without `--release` does"
    }

    fn thresholds(&self) -> &'static [Threshold] {
        &[]
    }

    fn examine(&self, facts: &Facts<'_>, _limits: &[f64]) -> Outcome {
        let Some(build) = &facts.report.header().build else {
            return Outcome::no_inputs(
                "the report does not say how the program was built (it is of `mlprof run`, or of an \
                 earlier version)",
            );
        };
        let evidence = [
            Evidence::new("opt-level", build.opt_level.as_str()),
            Evidence::new("debug assertions", if build.debug_assertions { "on" } else { "off" }),
        ];
        if !build.is_unoptimized() {
            return Outcome::healthy(evidence);
        }
        // libtorch comes optimised, whatever the program.
        let confidence = match facts.framework {
            Framework::Tch => Confidence::Hint,
            _ => Confidence::Likely,
        };
        Outcome::Found(vec![Finding {
            rule: self.name().to_owned(),
            sentence: format!(
                "The program was built without optimisation (opt-level {}): its times say little \
                 of how long it need take.",
                build.opt_level
            ),
            evidence: evidence.into(),
            place: Place::default(),
            // Of Rust code nine tenths and more; nothing in the report says of how much it is.
            cost: facts.cost(facts.seconds),
            confidence,
            remedy:
                "build with `--release`, or at least the dependencies with `[profile.dev.package.\
                     \"*\"] opt-level = 3`."
                    .to_owned(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use crate::BuildSettings;
    use crate::finding::Confidence;
    use crate::findings::samples::{found, healthy, missing, steps};

    const NAME: &str = "unoptimized-build";

    fn built(opt_level: &str) -> Option<BuildSettings> {
        Some(BuildSettings { opt_level: opt_level.to_owned(), ..BuildSettings::default() })
    }

    #[test]
    fn a_debug_build_is_found_and_a_release_build_is_not() {
        let mut report = steps(100, 0.02);
        report.header.build = built("0");
        let finding = found(NAME, report.clone());
        assert_eq!((finding.confidence, finding.cost.share), (Confidence::Likely, 1.0));
        assert!(finding.remedy.contains("--release"), "{finding:?}");
        for optimized in ["2", "3", "s"] {
            report.header.build = built(optimized);
            healthy(NAME, report.clone());
        }
    }

    #[test]
    fn without_settings_nothing_is_said() {
        assert!(missing(NAME, steps(100, 0.02)).contains("how the program was built"));
    }
}
