//! The recording cost per op.

use std::fmt;
use std::time::Duration;

use mlprof_core::{Profiler, activate};
use mlprof_tch::floor::Floor;
use mlprof_tch::prelude::TrainResult;

use crate::tiny::Tiny;
use crate::{Ops, Options, median, profiler, start_kineto};

/// The receiver of the ops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    /// Empty callbacks, which show libtorch's own cost. The other values contain this cost.
    Floor,
    Ours,
    Kineto,
}

/// The recorded data.
#[derive(Clone, Copy)]
struct RecordedContent {
    name: &'static str,
    shapes: bool,
    /// Records all input values, which corresponds to Kineto's shapes.
    inputs: bool,
    memory: bool,
}

const WHAT: [RecordedContent; 4] = [
    RecordedContent { name: "", shapes: false, inputs: false, memory: false },
    RecordedContent { name: ", shapes", shapes: true, inputs: false, memory: false },
    RecordedContent { name: ", inputs", shapes: true, inputs: true, memory: false },
    RecordedContent { name: ", shapes, memory", shapes: true, inputs: false, memory: true },
];

/// A combination of receiver and recorded data.
#[derive(Clone, Copy)]
struct Way {
    who: Who,
    what: RecordedContent,
}

/// All combinations. The first one is the baseline.
const WAYS: [Way; 1 + 3 * WHAT.len()] = {
    let mut ways = [Way { who: Who::Nobody, what: WHAT[0] }; 1 + 3 * WHAT.len()];
    let mut index = 0;
    while index < WHAT.len() {
        ways[1 + index] = Way { who: Who::Floor, what: WHAT[index] };
        ways[1 + WHAT.len() + index] = Way { who: Who::Ours, what: WHAT[index] };
        ways[1 + 2 * WHAT.len() + index] = Way { who: Who::Kineto, what: WHAT[index] };
        index += 1;
    }
    ways
};

impl Way {
    fn name(self) -> String {
        let who = match self.who {
            Who::Nobody => "nothing",
            Who::Floor => "empty callback",
            Who::Ours => "mlprof",
            Who::Kineto => "Kineto",
        };
        format!("{who}{}", self.what.name)
    }

    /// Returns the index of the Kineto combination with the same data.
    const fn of_kineto(way: usize) -> usize {
        1 + 2 * WHAT.len() + (way - 1) % WHAT.len()
    }

    /// Returns `true` if the combination is compared with Kineto's.
    fn is_compared(self) -> bool {
        matches!(self.who, Who::Floor | Who::Ours)
    }
}

/// Medians over all rounds.
pub struct Costs {
    ops_per_step: f64,
    step_us: f64,
    /// Nanoseconds per op, in the order of [`WAYS`].
    per_op: Vec<f64>,
    /// Cost relative to Kineto's in the same round, in the order of [`WAYS`]; 0 for Kineto itself.
    ratios: Vec<f64>,
}

/// Measures all combinations.
pub fn measure(options: &Options) -> TrainResult<Costs> {
    let mut net = Tiny::warm()?;
    let ops_per_step = ops_per_step(&mut net)?;
    let ops = ops_per_step * options.steps as f64;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        let mut taken = [0.0; WAYS.len()];
        // The first combination changes from round to round.
        for place in 0..WAYS.len() {
            let way = (round + place) % WAYS.len();
            taken[way] = turn(WAYS[way], &mut net, options)?.as_secs_f64() * 1e9;
        }
        rounds.push(taken);
        eprint!("\rround {}/{}", round + 1, options.rounds);
    }
    eprintln!();
    let over_rounds = |figure: &dyn Fn(&[f64; WAYS.len()]) -> f64| -> f64 {
        median(&mut rounds.iter().map(figure).collect::<Vec<_>>())
    };
    let per_op = (0..WAYS.len()).map(|way| over_rounds(&|taken| (taken[way] - taken[0]) / ops));
    let ratios = (0..WAYS.len()).map(|way| {
        if !WAYS[way].is_compared() {
            return 0.0;
        }
        let kineto = Way::of_kineto(way);
        over_rounds(&|taken| (taken[way] - taken[0]) / (taken[kineto] - taken[0]))
    });
    Ok(Costs {
        ops_per_step,
        step_us: over_rounds(&|taken| taken[0]) / options.steps as f64 / 1e3,
        per_op: per_op.collect(),
        ratios: ratios.collect(),
    })
}

/// Returns the duration of a turn's recorded steps, without the work after them.
fn turn(way: Way, net: &mut Tiny, options: &Options) -> TrainResult<Duration> {
    let timed = |net: &mut Tiny| {
        let start = options.clock.now();
        net.steps(options.steps)?;
        TrainResult::Ok(options.clock.now() - start)
    };
    let RecordedContent { shapes, memory, .. } = way.what;
    match way.who {
        Who::Nobody => timed(net),
        Who::Floor => {
            let _called =
                Floor { shapes, memory }.start().ok_or("libtorch rejects the callback")?;
            net.steps(1)?;
            timed(net)
        }
        Who::Ours => {
            let profiler = profiler([shapes, way.what.inputs, memory], &Ops::default());
            let _active = activate(profiler.clone());
            // The thread registers in the recording during the first step, which is not timed.
            net.steps(1)?;
            let taken = timed(net);
            profiler.teardown(None);
            taken
        }
        Who::Kineto => {
            let running = start_kineto(shapes, memory)?;
            net.steps(1)?;
            let taken = timed(net);
            running.stop().ok_or("cannot stop Kineto")?;
            taken
        }
    }
}

/// Records the steps of one combination, once per round, for tools that count instructions.
pub fn repeat(name: &str, options: &Options) -> TrainResult<()> {
    let way = WAYS.iter().find(|way| way.name() == name).ok_or_else(|| {
        let names: Vec<_> = WAYS.iter().map(|way| format!("{:?}", way.name())).collect();
        format!("unknown way to record {name:?}; use {}", names.join(", "))
    })?;
    let mut net = Tiny::warm()?;
    for _ in 0..options.rounds {
        turn(*way, &mut net, options)?;
    }
    Ok(())
}

fn ops_per_step(net: &mut Tiny) -> TrainResult<f64> {
    let ops = Ops::default();
    let profiler = profiler([false; 3], &ops);
    let active = activate(profiler.clone());
    net.steps(10)?;
    profiler.teardown(None);
    drop(active);
    let count = ops.lock().len();
    Ok(count as f64 / 10.0)
}

impl Costs {
    /// Returns the results as JSON.
    pub fn figures(&self) -> serde_json::Value {
        let ways = WAYS.iter().zip(&self.per_op).skip(1);
        ways.map(|(way, cost)| (way.name(), (*cost).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ops_per_step, step_us, .. } = self;
        writeln!(f, "a step of {ops_per_step:.1} ops takes {step_us:.1} µs without recording")?;
        writeln!(f, "{:<30} {:>10} {:>12}", "recorded by", "ns per op", "of Kineto's")?;
        for (index, way) in WAYS.iter().enumerate().skip(1) {
            write!(f, "{:<30} {:>10.0}", way.name(), self.per_op[index])?;
            if way.is_compared() {
                write!(f, " {:>12.2}", self.ratios[index])?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
