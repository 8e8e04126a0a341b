//! Diagnostics for data that was requested and is missing in a report: the reason and the remedy.
//! This module contains all reasons.
//!
//! The code that makes a report detects the missing data. This module only provides the texts. They
//! appear as a note in the report's text and JSON, and once on standard error when the report is
//! delivered.

use std::fmt::{self, Display, Formatter};

use mlprof_events::Framework;

use crate::number::grouped;

/// Missing data and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// All data is missing, because the profiler received no events.
    Everything,
    /// All data is missing, because the platform has no clock.
    Clock,
    /// Steps are missing, because `step()` was not called.
    AnyStep {
        /// Number of the first step to keep, from 0.
        first_active: u64,
    },
    /// Steps are missing in a program that need not report steps. No warning is printed.
    AnyStepOfProgram,
    /// Active steps are missing, because the stage had fewer steps than the schedule requires.
    ActiveSteps {
        /// Name of the stage.
        stage: &'static str,
        /// Number of steps that the schedule requires.
        asked: u64,
        /// Number of steps of the stage.
        had: u64,
        /// Number of the first step to keep, from 0.
        first_active: u64,
        /// First step that is shown instead and the number of such steps, if any.
        shown: Option<(u64, u64)>,
    },
    /// Some active steps of a cycle are missing.
    RestOfCycle {
        /// Index of the cycle, from 0.
        cycle: u64,
        /// Name of the stage.
        stage: &'static str,
        /// Number of steps that the schedule requires until the end of the cycle.
        asked: u64,
        /// Number of steps of the stage.
        had: u64,
        /// Number of the cycle's active steps that were recorded.
        recorded: u64,
        /// Number of active steps in a cycle.
        active: u64,
    },
    /// Ops, memory or both are missing, because the profiler was never active. Hooks report only to
    /// the active profiler.
    Activation {
        /// `true` if ops are missing.
        ops: bool,
        /// `true` if memory is missing.
        memory: bool,
    },
    /// Ops are missing, because no hook reports any.
    SourceOfOps {
        /// Frameworks of the program, as reported by hooks.
        frameworks: Vec<Framework>,
    },
    /// Ops are missing, because this framework provides no hook.
    OpsOf(&'static str),
    /// Ops are missing for the reason in the hook's note.
    OpsOfDevice(String),
    /// Ops are missing, although hooks for them exist. No op ran.
    Ops {
        /// Names of the hooks that report ops.
        sources: Vec<&'static str>,
    },
    /// Memory is missing, because no source reports it or no allocation happened.
    Memory {
        /// `true` if the program has a tracking allocator.
        has_allocator: bool,
    },
    /// Kernels are missing, although devices exist.
    Kernels {
        /// Name of the devices' platform.
        platform: String,
    },
    /// Flame graphs are missing, because no data was recorded for them.
    FlameGraphs,
    /// Parquet tables of the cycles are missing, because no data was recorded for them.
    Tables,
    /// The chart of memory over time is missing.
    MemoryTimeline,
    /// Functions are missing in the report of an Advanced profiler.
    Functions,
    /// Lines are missing, because no function has hooks on its lines.
    Lines,
    /// Allocations are missing, because no allocator counts them.
    Allocator,
    /// Actions are missing, so allocations have no row.
    ActionsWithMemory,
    /// Samples are missing, although the sampler ran.
    Samples {
        /// Requested sampling rate in hertz.
        hz: u64,
        /// Time that the sampler ran, in milliseconds.
        milliseconds: u64,
    },
    /// Samples are missing, because the sampler did not run for the given reason.
    Sampler(String),
}

impl Display for Missing {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => text.write_str(
                "the profiler received no events: give it to a trainer (`.profiler(…)`), or hold \
                 `activate(profiler.clone())` while the work runs",
            ),
            Self::Clock => write!(
                text,
                "nothing is measured: {} without an operating system has no clock",
                std::env::consts::ARCH
            ),
            Self::AnyStep { first_active: 0 } | Self::AnyStepOfProgram => {
                text.write_str("step() was never called, so the whole recording is one step")
            }
            Self::AnyStep { first_active } => write!(
                text,
                "step() was never called, and the first active step is {first_active} (counted \
                 from 0), so the whole recording is one step: call step() after every batch, or \
                 record without a schedule"
            ),
            Self::ActiveSteps { stage, asked, had, first_active, shown } => {
                let (asked, had) = (steps(*asked), steps(*had));
                write!(
                    text,
                    "the schedule needs {asked} and {stage} had {had}: no active step (the first \
                     is {first_active}, counted from 0) was completed"
                )?;
                match shown {
                    Some((first, 1)) => write!(text, ", so the report shows step {first}")?,
                    Some((first, count)) => {
                        write!(
                            text,
                            ", so the report shows steps {first} to {}",
                            first + count - 1
                        )?;
                    }
                    None => {}
                }
                text.write_str("; use a smaller skip_first, wait or warmup, or train longer")
            }
            Self::RestOfCycle { cycle, stage, asked, had, recorded, active } => write!(
                text,
                "cycle {cycle} is incomplete: the schedule needs {} until its end, {stage} had {}, \
                 and {recorded} of the cycle's {} were recorded",
                steps(*asked),
                steps(*had),
                steps(*active)
            ),
            Self::Activation { ops, memory } => write!(
                text,
                "{}, because the profiler was never active and hooks report only to the active \
                 one: hold `activate(profiler.clone())`, or a `Session`, while the work runs",
                match (ops, memory) {
                    (true, true) => "there are no ops and there is no memory",
                    (false, true) => "there is no memory",
                    (_, false) => "there are no ops",
                }
            ),
            Self::SourceOfOps { frameworks } => write!(
                text,
                "there are no ops, because no hook reports them: {}",
                ops_remedy(frameworks, "")
            ),
            Self::OpsOf(framework) => write!(
                text,
                "{framework} provides no hook for its tensor ops: {} to record them. The report \
                 shows actions, modules and functions",
                remedy_for(framework, &[], "").unwrap_or_else(|| run_with("…", ""))
            ),
            Self::OpsOfDevice(note) => text.write_str(note),
            Self::Ops { sources } => write!(
                text,
                "there are no ops: {} reports them, but none ran while steps were recorded; ops \
                 before the recorded steps or in another process are not recorded",
                sources.join(" and ")
            ),
            Self::Memory { has_allocator: false } => text.write_str(
                "there is no memory, because no source reports it: use tch, a device of burn's \
                 feature `cubecl`, an NVIDIA device (feature `cuda`), or count the program's own \
                 memory with `#[global_allocator] static ALLOCATOR: TrackingAllocator = \
                 TrackingAllocator::new();`",
            ),
            Self::Memory { has_allocator: true } => text.write_str(
                "there is no memory: the program allocated and freed nothing while steps were \
                 recorded and the profiler was active",
            ),
            Self::Kernels { platform } => write!(
                text,
                "there are no kernels: nothing ran on {platform} while steps were recorded; the \
                 model may be on the CPU"
            ),
            Self::FlameGraphs => {
                text.write_str("there are no flame graphs: nothing was recorded for them")
            }
            Self::Tables => {
                text.write_str("there are no Parquet tables: nothing was recorded for them")
            }
            Self::MemoryTimeline => text.write_str(
                "there is no memory over time: no allocation was recorded; see the notes about \
                 memory",
            ),
            Self::Functions => text.write_str(
                "there are no functions, only actions: write `#[profiled]` on functions or impl \
                 blocks, use the layer of the feature `tracing`, run the program under `mlprof run \
                 --functions …`, or add `.sampled(1000)` (feature `sampling`)",
            ),
            Self::Lines => text.write_str(
                "there are no lines: no function of this program has hooks on its lines; run it \
                 under `mlprof run --lines PATTERN` (`--explain` lists the matches of a pattern)",
            ),
            Self::Allocator => text.write_str(
                "nothing was counted: the program has no tracking allocator; add \
                 `#[global_allocator] static ALLOCATOR: TrackingAllocator = \
                 TrackingAllocator::new();`",
            ),
            Self::ActionsWithMemory => text.write_str(
                "there are no actions: only the process as a whole was counted. Give the profiler \
                 to a trainer, or hold `activate(profiler.clone())` and use `profile!`",
            ),
            Self::Samples { hz, milliseconds } => write!(
                text,
                "no sample was taken in {} ms at {} samples per second: the program was too short \
                 or idle; sample longer or more often",
                grouped(*milliseconds),
                grouped(*hz)
            ),
            Self::Sampler(reason) => write!(text, "nothing was sampled: {reason}"),
        }
    }
}

/// Returns instructions to record the ops of a program. They cover the given frameworks, or all
/// frameworks if none is known. `options` contains further options of the command, such as `
/// --numerics`.
pub fn ops_remedy(frameworks: &[Framework], options: &str) -> String {
    let known = frameworks.iter().filter_map(|framework| {
        let remedy = remedy_for(&framework.name, &framework.devices, options)?;
        Some((&*framework.name, remedy))
    });
    let known: Vec<(&str, String)> = known.collect();
    match &known[..] {
        [] => {
            let (cubecl, flex) = (CUBECL, run_with(BURN_FLEX, options));
            let (candle, tch) = (run_with("candle", options), TCH);
            format!(
                "with burn {cubecl}, on its flex device {flex}; with candle {candle}; with tch {tch}"
            )
        }
        [(_, remedy)] => remedy.clone(),
        several => {
            let each = several.iter().map(|(name, remedy)| format!("with {name} {remedy}"));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Presets with hooks for burn's flex device, for the forward and backward pass.
const BURN_FLEX: &str = "burn-flex,burn-autodiff";
const CUBECL: &str = "use `.profiler(…)` of mlprof-burn with its feature `cubecl` (wgpu, CUDA, …)";
const TCH: &str = "link mlprof-tch (`use mlprof_tch as _;`)";

/// Returns the instructions for one framework, or `None` if it is unknown.
fn remedy_for(framework: &str, devices: &[String], options: &str) -> Option<String> {
    let is_flex = |device: &String| device.starts_with("Flex");
    match framework {
        "candle" => Some(run_with("candle", options)),
        "burn" if !devices.is_empty() && devices.iter().all(is_flex) => {
            Some(run_with(BURN_FLEX, options))
        }
        "burn" if !devices.is_empty() && !devices.iter().any(is_flex) => Some(CUBECL.to_owned()),
        "burn" => Some(format!("{CUBECL}, on its flex device {}", run_with(BURN_FLEX, options))),
        "tch" => Some(TCH.to_owned()),
        _ => None,
    }
}

fn run_with(presets: &str, options: &str) -> String {
    format!("run the program under `mlprof run --ops {presets}{options} -- …`")
}

fn steps(count: u64) -> String {
    match count {
        1 => "1 step".to_owned(),
        count => format!("{} steps", grouped(count)),
    }
}

/// Adds the missing data to the notes of a report, each reason once.
pub fn note_missing(missing: &[Missing], notes: &mut Vec<String>) {
    for text in missing.iter().map(Missing::to_string) {
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framework(name: &str, devices: &[&str]) -> Framework {
        let devices = devices.iter().map(|device| (*device).to_owned()).collect();
        Framework { name: name.to_owned(), devices, ..Framework::default() }
    }

    #[test]
    fn where_the_framework_is_known_only_its_remedy_is_given_with_the_whole_command() {
        let remedy = |frameworks: &[Framework]| ops_remedy(frameworks, "");
        let candle = remedy(&[framework("candle", &["cpu"])]);
        assert_eq!(candle, "run the program under `mlprof run --ops candle -- …`");
        let flex = remedy(&[framework("burn", &["Flex(Default)"])]);
        assert_eq!(flex, "run the program under `mlprof run --ops burn-flex,burn-autodiff -- …`");
        let gpu = remedy(&[framework("burn", &["Wgpu(DefaultDevice)"])]);
        assert!(gpu.contains("`cubecl`") && !gpu.contains("mlprof run"), "{gpu}");
        let both = remedy(&[framework("burn", &["Wgpu(DefaultDevice)", "Flex(Default)"])]);
        assert!(both.contains("`cubecl`") && both.contains("burn-flex"), "{both}");
        let tch = remedy(&[framework("tch", &["cpu"])]);
        assert!(tch.contains("mlprof-tch") && !tch.contains("candle"), "{tch}");
        let two = remedy(&[framework("candle", &[]), framework("tch", &[])]);
        assert!(two.starts_with("with candle run") && two.contains("; with tch link"), "{two}");
        for unknown in [vec![], vec![framework("another", &[])]] {
            let all = remedy(&unknown);
            for part in ["burn-flex,burn-autodiff -- …", "--ops candle -- …", "use mlprof_tch as _"]
            {
                assert!(all.contains(part), "{part}: {all}");
            }
        }
        let numbers = ops_remedy(&[framework("candle", &[])], " --numerics");
        assert!(numbers.contains("`mlprof run --ops candle --numerics -- …`"), "{numbers}");
    }

    #[test]
    fn notes_name_the_preset_of_the_framework() {
        let frameworks = vec![framework("burn", &["Flex(Default)"])];
        let said = Missing::SourceOfOps { frameworks }.to_string();
        assert!(said.contains("--ops burn-flex,burn-autodiff -- …") && !said.contains("candle"));
        let candle = Missing::OpsOf("candle").to_string();
        assert!(candle.contains("`mlprof run --ops candle -- …` to record them"), "{candle}");
        let other = Missing::OpsOf("another").to_string();
        assert!(other.contains("`mlprof run --ops … -- …`"), "{other}");
    }
}
