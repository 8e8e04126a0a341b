//! What recording costs an op.

use std::fmt;
use std::time::Duration;

use profiler_core::{Profiler, activate};
use tch_plugin::prelude::TrainResult;

use crate::tiny::Tiny;
use crate::{Ops, Options, median, profiler, start_kineto};

/// A way to record.
#[derive(Clone, Copy)]
enum Way {
    Nothing,
    Ours { shapes: bool, memory: bool },
    Kineto { shapes: bool, memory: bool },
}

/// The first is what the others are compared with.
const WAYS: [(&str, Way); 7] = [
    ("nothing", Way::Nothing),
    ("mlprof", Way::Ours { shapes: false, memory: false }),
    ("mlprof, shapes", Way::Ours { shapes: true, memory: false }),
    ("mlprof, shapes, memory", Way::Ours { shapes: true, memory: true }),
    ("Kineto", Way::Kineto { shapes: false, memory: false }),
    ("Kineto, shapes", Way::Kineto { shapes: true, memory: false }),
    ("Kineto, shapes, memory", Way::Kineto { shapes: true, memory: true }),
];
/// From one of our ways to Kineto's.
const TO_KINETO: usize = 3;

/// Medians over all rounds.
pub struct Costs {
    ops_per_step: f64,
    step_us: f64,
    /// Nanoseconds per op, in the order of [`WAYS`].
    per_op: Vec<f64>,
    /// Our cost by Kineto's of the same round, in the order of [`WAYS`]; 0 for those not ours.
    ratios: Vec<f64>,
}

/// Measures them all.
pub fn measure(options: &Options) -> TrainResult<Costs> {
    let mut net = Tiny::warm()?;
    let ops_per_step = ops_per_step(&mut net)?;
    let ops = ops_per_step * options.steps as f64;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        let mut taken = [0.0; WAYS.len()];
        // Who comes first changes from round to round.
        for place in 0..WAYS.len() {
            let way = (round + place) % WAYS.len();
            taken[way] = turn(WAYS[way].1, &mut net, options)?.as_secs_f64() * 1e9;
        }
        rounds.push(taken);
        eprint!("\rround {}/{}", round + 1, options.rounds);
    }
    eprintln!();
    let over_rounds = |figure: &dyn Fn(&[f64; WAYS.len()]) -> f64| -> f64 {
        median(&mut rounds.iter().map(figure).collect::<Vec<_>>())
    };
    let per_op = (0..WAYS.len()).map(|way| over_rounds(&|taken| (taken[way] - taken[0]) / ops));
    let ratios = (0..WAYS.len()).map(|way| match WAYS[way].1 {
        Way::Ours { .. } => {
            over_rounds(&|taken| (taken[way] - taken[0]) / (taken[way + TO_KINETO] - taken[0]))
        }
        _ => 0.0,
    });
    Ok(Costs {
        ops_per_step,
        step_us: over_rounds(&|taken| taken[0]) / options.steps as f64 / 1e3,
        per_op: per_op.collect(),
        ratios: ratios.collect(),
    })
}

/// How long the steps of a turn take while they are recorded, without what comes after.
fn turn(way: Way, net: &mut Tiny, options: &Options) -> TrainResult<Duration> {
    let timed = |net: &mut Tiny| {
        let start = options.clock.now();
        net.steps(options.steps)?;
        TrainResult::Ok(options.clock.now() - start)
    };
    match way {
        Way::Nothing => timed(net),
        Way::Ours { shapes, memory } => {
            let profiler = profiler(shapes, memory, &Ops::default());
            let _active = activate(profiler.clone());
            // The thread takes its place in the recording, as it does in a first step.
            net.steps(1)?;
            let taken = timed(net);
            profiler.teardown(None);
            taken
        }
        Way::Kineto { shapes, memory } => {
            let running = start_kineto(shapes, memory)?;
            net.steps(1)?;
            let taken = timed(net);
            running.stop().ok_or("Kineto does not stop")?;
            taken
        }
    }
}

fn ops_per_step(net: &mut Tiny) -> TrainResult<f64> {
    let ops = Ops::default();
    let profiler = profiler(false, false, &ops);
    let active = activate(profiler.clone());
    net.steps(10)?;
    profiler.teardown(None);
    drop(active);
    let count = ops.lock().len();
    Ok(count as f64 / 10.0)
}

impl Costs {
    /// For other programs.
    pub fn figures(&self) -> serde_json::Value {
        let ways = WAYS.iter().zip(&self.per_op).skip(1);
        ways.map(|((name, _), cost)| ((*name).to_owned(), (*cost).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ops_per_step, step_us, .. } = self;
        writeln!(f, "a step of {ops_per_step:.1} ops takes {step_us:.1} µs unrecorded")?;
        writeln!(f, "{:<24} {:>10} {:>12}", "recorded by", "ns per op", "of Kineto's")?;
        for (way, (name, kind)) in WAYS.iter().enumerate().skip(1) {
            write!(f, "{name:<24} {:>10.0}", self.per_op[way])?;
            match kind {
                Way::Ours { .. } => writeln!(f, " {:>12.2}", self.ratios[way])?,
                _ => writeln!(f)?,
            }
        }
        Ok(())
    }
}
