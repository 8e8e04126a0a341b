//! Finding rules for the host.

use mlprof_report::finding::{Confidence, Evidence, FindingParts, Place};
use mlprof_report::findings::{Outcome, Threshold};
use mlprof_report::number::share;

use super::Rule;
use super::facts::{Facts, NO_DEVICE, finding, healthy, idle, no_inputs, time};
use crate::answers::{Activity, PathKind, PathPart};
use crate::classify::waits_for_device;

pub(super) const DATA_WAITING: Rule = Rule {
    name: "data-waiting",
    condition: "the training loop spends much of the time waiting for data",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the step time spent waiting",
    }],
    examine: data_waiting,
};

pub(super) const DEVICE_IDLE: Rule = Rule {
    name: "device-idle",
    condition: "the busiest device is idle for much of the time because the host launches work too late",
    thresholds: &[
        Threshold {
            name: "idle",
            default: 0.3,
            why: "minimum share of the time in which the device is idle",
        },
        Threshold {
            name: "host",
            default: 0.3,
            why: "minimum share of the critical path on the host, without waiting for data",
        },
    ],
    examine: device_idle,
};

pub(super) const SYNCHRONISING_CALLS: Rule = Rule {
    name: "synchronising-calls",
    condition: "steps wait for the device several times, and the device is idle in between",
    thresholds: &[
        Threshold {
            name: "calls-per-step",
            default: 2.0,
            why: "minimum number of waits per step: one, such as for the loss, may be intended",
        },
        Threshold { name: "share", default: 0.1, why: "minimum share of the time spent waiting" },
        Threshold {
            name: "idle",
            default: 0.1,
            why: "minimum share of the time in which the device is idle between its work: after a wait it has \
                  none",
        },
    ],
    examine: synchronising_calls,
};

pub(super) const UNRECORDED_TIME: Rule = Rule {
    name: "unrecorded-time",
    condition: "nothing is recorded in most of the critical path",
    thresholds: &[Threshold {
        name: "share",
        default: 0.5,
        why: "minimum unrecorded share of the critical path",
    }],
    examine: unrecorded_time,
};

fn data_waiting(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    if facts.step_count().is_none() {
        return no_inputs("the trace has no steps");
    }
    let waiting: i64 = facts.steps.iter().map(|step| step.waiting_for_data_ns).sum();
    let evidence =
        vec![Evidence::new("waiting", time(waiting)), Evidence::new("share", facts.share(waiting))];
    if facts.part(waiting) < limits[0] {
        return healthy(evidence);
    }
    let sentence = format!(
        "Steps wait for data for {} of {} ({}).",
        time(waiting),
        time(facts.whole_ns()),
        facts.share(waiting)
    );
    Outcome::Found(vec![
        FindingParts {
            remedy: "prepare batches in advance on worker threads or processes (`num_workers`, \
                 `prefetch_factor`), or do less work per batch."
                .to_owned(),
            ..finding(DATA_WAITING.name, sentence, evidence, facts.cost(waiting))
        }
        .build(),
    ])
}

fn device_idle(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(device) = facts.busiest() else { return no_inputs(NO_DEVICE) };
    let (idle, host) = (idle(device), facts.host_ns());
    let mut evidence = vec![
        Evidence::new("idle time of the device", facts.share(idle)),
        Evidence::new("host share of the critical path", facts.share(host)),
    ];
    evidence.extend(longest_on_host(facts).map(|part| {
        let name = part.name.clone().unwrap_or_else(|| part.kind.text().to_owned());
        Evidence::new(format!("longest host part, {name}"), time(part.duration_ns))
    }));
    if facts.part(idle) < limits[0] || facts.part(host) < limits[1] {
        return healthy(evidence);
    }
    let sentence = format!(
        "Device {} is idle in {} of {} because the host launches work too late.",
        device.device,
        facts.share(idle),
        facts.time()
    );
    let python = facts.on_path(PathKind::Host(Activity::Python));
    let remedy = match python * 2 > host {
        true => {
            "reduce the Python code, which takes most of the host time: compile the model (`torch.compile`, \
             device graphs), or launch more work per call. Record a trace without stacks as well, because \
             recording stacks takes time."
        }
        false => {
            "launch more work per call: larger batches, fused ops, device graphs; do not read tensor values \
             inside a step."
        }
    };
    Outcome::Found(vec![
        FindingParts {
            remedy: remedy.to_owned(),
            ..finding(DEVICE_IDLE.name, sentence, evidence, facts.cost(idle.min(host)))
        }
        .build(),
    ])
}

/// Returns the longest named host part of the critical paths.
fn longest_on_host<'a>(facts: &'a Facts<'_>) -> Option<&'a PathPart> {
    facts.path.iter().find(|part| matches!(part.kind, PathKind::Host(_)) && part.name.is_some())
}

fn synchronising_calls(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(steps) = facts.step_count() else { return no_inputs("the trace has no steps") };
    let Some(device) = facts.busiest() else { return no_inputs(NO_DEVICE) };
    let waits = || {
        let names = facts.names.iter();
        names.filter(|row| row.category.is_runtime() && waits_for_device(&row.name))
    };
    let calls: u64 = waits().map(|row| row.calls).sum();
    let parts = facts.all_steps.iter();
    let waits_in_steps = parts.filter(|part| part.activity == Activity::WaitingForDevice);
    let waited: i64 = waits_in_steps.map(|part| part.duration_ns).sum();
    let idle = device.times.idle_between_ns;
    let per_step = calls as f64 / steps as f64;
    let evidence = vec![
        Evidence::new("waits per step", format!("{per_step:.1}")),
        Evidence::new("time waiting for the device", facts.share(waited)),
        Evidence::new("device idle time between its work", facts.share(idle)),
    ];
    let is_long = facts.part(waited) >= limits[1] && facts.part(idle) >= limits[2];
    let longest = waits().max_by_key(|row| row.total_ns);
    let Some(call) = longest.filter(|_| per_step >= limits[0] && is_long) else {
        return healthy(evidence);
    };
    let sentence = format!(
        "Each step waits for the device {per_step:.1} times, for {} of the time, and the device is idle in {} \
         of the time.",
        facts.share(waited),
        facts.share(idle)
    );
    Outcome::Found(vec![FindingParts {
        place: Place::op(&*call.name),
        remedy:
            "read tensor values only once in many steps (`item`, `cpu`, printing, boolean masks as indices), \
             use non-blocking copies, and remove synchronising calls."
                .to_owned(),
        ..finding(SYNCHRONISING_CALLS.name, sentence, evidence, facts.cost(idle))
    }.build()])
}

fn unrecorded_time(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let nothing = facts.on_path(PathKind::Host(Activity::Nothing));
    let evidence = vec![
        Evidence::new("unrecorded time on the critical path", time(nothing)),
        Evidence::new("share", share(facts.part(nothing), 1.0)),
    ];
    if facts.part(nothing) < limits[0] {
        return healthy(evidence);
    }
    let mut place = Place::default();
    place.thread = facts.steps.first().map(|step| step.thread.clone());
    let sentence = format!("Nothing is recorded in {} of {}.", facts.share(nothing), facts.time());
    Outcome::Found(vec![
        FindingParts {
            place,
            confidence: Confidence::Hint,
            remedy:
                "mark the code that runs there (`profile!`, `record_function`), or record stacks \
                 (`with_stack`), so that the trace shows it."
                    .to_owned(),
            ..finding(UNRECORDED_TIME.name, sentence, evidence, facts.cost(nothing))
        }
        .build(),
    ])
}
