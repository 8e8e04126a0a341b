//! Finding rules over analysis results. They report time that could be saved and a remedy.

mod communication;
mod device;
mod facts;
mod host;
mod kernels;

use mlprof_report::finding::Finding;
use mlprof_report::findings::{Explanation, Outcome, Threshold};
use mlprof_report::number::duration;

pub(crate) use self::facts::Facts;

/// Name of the rule that finds devices idle because the host launches work too late.
pub(crate) const DEVICE_IDLE: &str = host::DEVICE_IDLE.name;

/// Rule that detects one cause of lost time.
struct Rule {
    name: &'static str,
    /// Condition under which the rule reports a finding.
    condition: &'static str,
    thresholds: &'static [Threshold],
    /// Examines the facts. The limits are the thresholds' defaults in order.
    examine: fn(&Facts<'_>, &[f64]) -> Outcome,
}

/// All finding rules.
const RULES: [&Rule; 12] = [
    &host::DATA_WAITING,
    &host::DEVICE_IDLE,
    &host::SYNCHRONISING_CALLS,
    &kernels::SHORT_KERNELS,
    &kernels::UNFUSED_ELEMENTWISE,
    &host::UNRECORDED_TIME,
    &communication::EXPOSED_COMMUNICATION,
    &communication::SLOW_COLLECTIVES,
    &device::EXPOSED_COPIES,
    &device::PAGEABLE_COPIES,
    &device::SLOW_DEVICE,
    &kernels::DOMINANT_KERNEL,
];

/// Shortest trace in seconds that the rules examine. In a shorter trace, the start-up of the
/// recorder would dominate the results.
const LEAST_SECONDS: f64 = 1e-3;

/// Returns the outcome of each rule for a trace.
pub(crate) fn explain(facts: &Facts<'_>) -> Vec<Explanation> {
    let explain = |rule: &&Rule| {
        let limits: Vec<f64> = rule.thresholds.iter().map(|threshold| threshold.default).collect();
        let outcome = match facts.seconds() < LEAST_SECONDS {
            true => Outcome::NoInputs(format!(
                "the trace covers only {}; the rules need at least {}",
                duration(facts.seconds()),
                duration(LEAST_SECONDS)
            )),
            false => (rule.examine)(facts, &limits),
        };
        let thresholds = rule.thresholds.iter().copied().zip(limits).collect();
        Explanation { rule: rule.name, condition: rule.condition, thresholds, outcome }
    };
    RULES.iter().map(explain).collect()
}

/// Returns the findings of a trace, most expensive first, and the names of the rules that had their
/// inputs.
pub(crate) fn of(facts: &Facts<'_>) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut checked) = (Vec::new(), Vec::new());
    for Explanation { rule, outcome, .. } in explain(facts) {
        match outcome {
            Outcome::Found(found) => findings.extend(found),
            Outcome::Healthy(_) => {}
            Outcome::NoInputs(_) => continue,
        }
        checked.push(rule.to_owned());
    }
    findings.sort_by(|one, other| {
        let is_hint = |finding: &Finding| !finding.is_advice();
        let order = is_hint(one).cmp(&is_hint(other));
        order.then(other.cost.seconds.total_cmp(&one.cost.seconds))
    });
    (findings, checked)
}
