//! Compares the op durations of both profilers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use digits::{Digit, splits};
use mlprof_core::{Profiler, activate};
use mlprof_tch::prelude::*;
use tch::Device;
use tch::nn::{self, VarStore};
use tch_digits::{Batch, DigitNet, LEARNING_RATE};

use crate::{Ops, median, profiler, start_kineto};

const BATCH: usize = 256;
const ROUNDS: usize = 9;
const STEPS: usize = 20;
/// Minimum share of the time for an op to be compared. For shorter ops, the clock resolution is too
/// coarse.
const LEAST_SHARE: f64 = 0.01;

/// Totals of one op, one entry per round.
#[derive(Default)]
struct Totals {
    /// Kineto's total divided by the time of all steps.
    shares: Vec<f64>,
    /// Our total divided by Kineto's.
    ratios: Vec<f64>,
}

/// For each op with a significant share: its name, its share of the time, and the ratio of our
/// total to Kineto's.
pub struct Agreement(Vec<(String, f64, f64)>);

struct Digits {
    net: DigitNet,
    optimizer: TchOptimizer,
    batch: Batch,
}

impl Digits {
    fn steps(&mut self, steps: usize) -> TrainResult<()> {
        for _ in 0..steps {
            self.optimizer.zero_grad()?;
            let loss = self.net.loss(&self.batch)?;
            self.optimizer.backward(&loss, 1.0)?;
            self.optimizer.step()?;
        }
        Ok(())
    }
}

/// Records the same steps with both profilers several times.
pub fn measure() -> TrainResult<Agreement> {
    let digits: Vec<Digit> = splits(1)?.train.into_iter().take(BATCH).collect();
    let store = VarStore::new(Device::Cpu);
    let net = DigitNet::new(&store.root());
    let optimizer = TchOptimizer::new(nn::Adam::default(), &store, LEARNING_RATE)?;
    let mut digits = Digits { net, optimizer, batch: Batch::new(&digits)? };
    digits.steps(STEPS)?;
    let mut totals = BTreeMap::<String, Totals>::new();
    for round in 0..ROUNDS {
        let Recorded { ours, theirs, taken } = record(&mut digits, round % 2 == 0)?;
        for (name, ours) in ours {
            let theirs = theirs.get(name).copied().unwrap_or_default();
            let totals = totals.entry(name.to_owned()).or_default();
            totals.shares.push(theirs / taken);
            totals.ratios.push(ours / theirs);
        }
    }
    let rows = totals
        .into_iter()
        .map(|(name, mut totals)| (name, median(&mut totals.shares), median(&mut totals.ratios)));
    let mut rows: Vec<_> = rows.filter(|(_, share, _)| *share > LEAST_SHARE).collect();
    rows.sort_by(|left, right| right.1.total_cmp(&left.1));
    Ok(Agreement(rows))
}

/// Durations of the same steps in nanoseconds.
struct Recorded {
    ours: BTreeMap<&'static str, f64>,
    theirs: BTreeMap<String, f64>,
    taken: f64,
}

/// Records one round. The profiler that starts first also receives each op first, so the order
/// alternates.
fn record(digits: &mut Digits, ours_first: bool) -> TrainResult<Recorded> {
    let ops = Ops::default();
    let profiler = profiler([true, false, false], &ops);
    let before = if ours_first { Some(activate(profiler.clone())) } else { None };
    let running = start_kineto(true, false)?;
    let active = before.unwrap_or_else(|| activate(profiler.clone()));
    let start = Instant::now();
    digits.steps(STEPS)?;
    let taken = start.elapsed().as_secs_f64() * 1e9;
    profiler.teardown(None);
    drop(active);
    let events = running.stop().ok_or("cannot stop Kineto")?.events();
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    for (name, time) in ops.lock().iter() {
        *ours.entry(*name).or_default() += *time as f64;
    }
    for event in events {
        *theirs.entry(event.name).or_default() += event.nanoseconds as f64;
    }
    Ok(Recorded { ours, theirs, taken })
}

impl Agreement {
    /// Returns the largest difference, relative to Kineto's total.
    pub fn largest(&self) -> f64 {
        self.0.iter().map(|(.., ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<72} {:>10} {:>12}", "total time of an op", "of a step", "of Kineto's")?;
        for (name, share, ratio) in &self.0 {
            writeln!(f, "{name:<72} {:>8.1} % {ratio:>12.3}", share * 100.0)?;
        }
        writeln!(f, "largest difference: {:.1} %", self.largest() * 100.0)
    }
}
