//! The training process: reads a number of steps from each line of standard input, runs them, and
//! prints their durations.

use std::io::{BufRead, Write};
use std::time::Duration;

use digits::overhead::Clock;
use digits::{Batches, splits};
use mlprof_core::{RunContext, Session, Stage, profile};
use mlprof_tch::prelude::*;
use tch::Device;
use tch::nn::{self, OptimizerConfig};
use tch_digits::{Batch, DigitNet, LEARNING_RATE};

/// Number of batches of 64 digits each.
const BATCHES: usize = 20;

/// Trains until standard input ends.
pub fn obey(clock: Clock) -> TrainResult<()> {
    // The example program uses the same setting.
    tch::set_num_threads(1);
    tch::manual_seed(1);
    let batches = Batches::in_order(splits(1)?.train.into(), 64).take(BATCHES);
    let batches: Vec<Batch> =
        batches.map(|digits| Ok(Batch::new(&digits)?)).collect::<TrainResult<_>>()?;
    let variables = nn::VarStore::new(Device::Cpu);
    let net = DigitNet::new(&variables.root());
    let mut optimizer = nn::Adam::default().build(&variables, LEARNING_RATE)?.profile_optimizer();
    let session = Session::begin("none", Stage::Fit, &RunContext::default())?;
    let mut step = |number: usize| -> TrainResult<Duration> {
        let start = clock.now();
        {
            let _batch = profile!("run_training_batch");
            let loss = {
                let _forward = profile!("training_step");
                net.loss(&batches[number % batches.len()])?
            };
            optimizer.backward_step(&loss);
        }
        session.profiler().step();
        Ok(clock.now() - start)
    };
    for line in std::io::stdin().lock().lines() {
        let count: usize = line?.parse()?;
        let durations: Vec<Duration> = (0..count).map(&mut step).collect::<TrainResult<_>>()?;
        let nanoseconds: Vec<u128> = durations.iter().map(Duration::as_nanos).collect();
        println!("{}", serde_json::to_string(&nanoseconds)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
