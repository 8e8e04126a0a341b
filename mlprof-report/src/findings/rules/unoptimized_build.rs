//! Rule `unoptimized-build`: the program was built without optimization, or not for speed.

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};

pub(super) static RULE: Rule = Rule {
    name: "unoptimized-build",
    condition: "the program was built for size or with an opt-level below 3, for example by `cargo \
                run` without `--release`",
    thresholds: &[
        Threshold {
            name: "saved-of-size",
            default: 0.86,
            why: "maximum share of Rust time that level 3 saves over a build for size, whose loops \
                  process one number at a time instead of eight",
        },
        Threshold {
            name: "saved-of-2",
            default: 0.1,
            why: "maximum share of Rust time that level 3 saves over level 2: sorting and \
                  splitting text is about 6 % faster, and loops over numbers are as fast",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(build) = &facts.report.header().build else {
        return Outcome::no_inputs(
            "the report does not contain the build settings of the program: it was measured by \
             `mlprof run` or by an earlier version",
        );
    };
    let evidence = [
        Evidence::new("opt-level", build.opt_level.as_str()),
        Evidence::new("debug assertions", if build.debug_assertions { "on" } else { "off" }),
    ];
    let level = build.opt_level.as_str();
    let Some(judged) = Judged::of(level, limits) else { return Outcome::healthy(evidence) };
    // libtorch is always optimized, independent of the program's build.
    let confidence = match facts.framework {
        Framework::Tch => Confidence::Hint,
        _ => judged.confidence,
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "The program was built {} (opt-level {level}): {}.",
            judged.how, judged.so
        ),
        evidence: evidence.into(),
        place: Place::default(),
        // The report does not show the share of Rust code in the time, so this is an upper bound.
        cost: match judged.saved {
            saved if saved < 1.0 => facts.estimated_cost(saved * facts.seconds),
            _ => facts.cost(facts.seconds),
        },
        confidence,
        remedy: judged.remedy.to_owned(),
    }])
}

/// Texts and limits for one optimization level.
struct Judged {
    how: &'static str,
    so: &'static str,
    /// Maximum part of the time of Rust code that can be saved.
    saved: f64,
    confidence: Confidence,
    remedy: &'static str,
}

impl Judged {
    /// Returns the texts of a level. Returns `None` for the highest level and for unknown values.
    fn of(level: &str, limits: &[f64]) -> Option<Self> {
        match level {
            "0" | "1" => Some(Self {
                how: "without optimization",
                so: "its times are not representative",
                // Level 3 saves nine tenths or more of the time of Rust code.
                saved: 1.0,
                confidence: Confidence::Likely,
                remedy: match level {
                    "0" => {
                        "build with `--release`, or at least the dependencies with \
                         `[profile.dev.package.\"*\"] opt-level = 3`."
                    }
                    _ => {
                        "set `opt-level = 3` in the profile that you build with, and look for \
                         `CARGO_PROFILE_RELEASE_OPT_LEVEL` in the environment."
                    }
                },
            }),
            "s" | "z" => Some(Self {
                how: "for size",
                so: "its loops over numbers can take several times as long as necessary",
                saved: limits[0],
                confidence: Confidence::Likely,
                remedy: "set `opt-level = 3` (the default) in `[profile.release]`; use `s` and `z` \
                         only where the program must be small.",
            }),
            "2" => Some(Self {
                how: "with reduced optimization",
                so: "level 3 can be a few percent faster",
                saved: limits[1],
                confidence: Confidence::Hint,
                remedy: "set `opt-level = 3` in the profile, and compare: `mlprof report \
                         AFTER.json --against BEFORE.json`.",
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::Framework;

    use crate::BuildSettings;
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, steps};

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
        report.header.build = built("3");
        healthy(NAME, report);
    }

    #[test]
    fn levels_between_are_found_with_what_the_highest_one_saves_at_most() {
        let mut report = steps(100, 0.02);
        let seconds = report.header.wall_seconds;
        let expected = [
            ("s", 0.86, Confidence::Likely),
            ("z", 0.86, Confidence::Likely),
            ("2", 0.1, Confidence::Hint),
        ];
        for (level, saved, confidence) in expected {
            report.header.build = built(level);
            let finding = found(NAME, report.clone());
            close(finding.cost.seconds, saved * seconds, 0.001);
            assert_eq!(finding.confidence, confidence, "{level}");
            assert!(finding.sentence.contains(&format!("(opt-level {level})")), "{finding:?}");
            assert!(finding.remedy.contains("`opt-level = 3`"), "{finding:?}");
        }
    }

    #[test]
    fn of_libtorch_it_says_little() {
        let mut report = steps(100, 0.02);
        report.header.build = built("s");
        report.header.frameworks.push(Framework { name: "tch".to_owned(), ..Framework::default() });
        assert_eq!(found(NAME, report).confidence, Confidence::Hint);
    }

    #[test]
    fn without_settings_nothing_is_said() {
        assert!(missing(NAME, steps(100, 0.02)).contains("build settings"));
    }
}
