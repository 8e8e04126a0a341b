//! What costs time in a trace, and what to do: rules over its answers, whose findings are those of
//! reports.

mod communication;
mod device;
mod facts;
mod host;
mod kernels;

use mlprof_report::finding::Finding;
use mlprof_report::findings::{Explanation, Outcome, Threshold};
use mlprof_report::number::duration;

pub(crate) use self::facts::Facts;

/// One thing that can cost time.
struct Rule {
    name: &'static str,
    /// When it is found.
    condition: &'static str,
    thresholds: &'static [Threshold],
    /// Looks at the facts; the limits are the defaults of the thresholds, in their order.
    examine: fn(&Facts<'_>, &[f64]) -> Outcome,
}

/// All rules.
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

/// So many seconds a trace must cover, since less says too little: what a recorder needs to begin
/// would decide.
const LEAST_SECONDS: f64 = 1e-3;

/// What each rule says of a trace.
pub(crate) fn explain(facts: &Facts<'_>) -> Vec<Explanation> {
    let explain = |rule: &&Rule| {
        let limits: Vec<f64> = rule.thresholds.iter().map(|threshold| threshold.default).collect();
        let outcome = match facts.seconds() < LEAST_SECONDS {
            true => Outcome::NoInputs(format!(
                "the trace covers {}, and less than {} says too little",
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

/// What is found in a trace, what costs most first, and the rules that had what they look at.
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
