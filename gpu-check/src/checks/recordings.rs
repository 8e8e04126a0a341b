//! Checks several recordings in one process, and the cost of a launch between them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use mlprof_cuda::finalize_cupti;

use super::Shared;
use crate::gpu::{Gpu, Kernel};
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Plan, record};
use crate::statistics::{median, time};

/// Recordings of each kind.
const RECORDINGS: usize = 20;
/// Kernels per recording.
const KERNELS: u64 = 1_000;
/// Kernels per measurement between recordings, and the number of measurements.
const BETWEEN: (u64, usize) = (20_000, 5);
/// Maximum time of a launch after a recording, relative to a launch before it.
const MOST: f64 = 1.25;
/// Threads that launch kernels while recordings begin and end.
const THREADS: usize = 4;

/// Runs the check, which must be the first: no recording of the process may precede its first
/// measurement.
pub fn run(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let gpu = shared.gpu()?;
    gpu.launch(Kernel::Empty, KERNELS)?;
    let before = launch_nanoseconds(gpu)?;
    let mut rows = vec![several(gpu, "recordings: one thread")?];
    let after = launch_nanoseconds(gpu)?;
    let measured = format!("{} before, {} after", time(before), time(after));
    let is_good = after <= before * MOST;
    rows.push(Row::decided("recordings: a launch", measured, "at most 1.25 times", is_good));
    rows.push(beside_launches(gpu)?);
    finalize_cupti(false);
    rows.push(several(gpu, "recordings: CUPTI stays attached")?);
    let measured = time(launch_nanoseconds(gpu)?);
    rows.push(Row::info("recordings: a launch, CUPTI stays attached", measured));
    Ok(rows)
}

/// Returns the median time per launch in nanoseconds, including the execution of all kernels.
fn launch_nanoseconds(gpu: &Gpu) -> Result<f64, String> {
    let (kernels, count) = BETWEEN;
    let mut measured = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        gpu.launch(Kernel::Empty, kernels)?;
        gpu.wait()?;
        measured.push(began.elapsed().as_secs_f64() * 1e9 / kernels as f64);
    }
    Ok(median(&measured))
}

fn several(gpu: &Gpu, name: &str) -> Result<Row, String> {
    let launch = || gpu.launch(Kernel::Empty, KERNELS).and_then(|()| gpu.wait());
    let (mut counts, mut nanoseconds) = (Vec::new(), Vec::new());
    for _ in 0..RECORDINGS {
        let began = Instant::now();
        let recorded = record(Plan::default(), |_| launch())?;
        nanoseconds.push(began.elapsed().as_secs_f64() * 1e9);
        counts.push(recorded.recording.kernels);
        launch()?;
    }
    let least = counts.iter().min().unwrap_or(&0);
    let measured = format!(
        "{} recordings with at least {least} kernels, {} each",
        counts.len(),
        time(median(&nanoseconds))
    );
    Ok(Row::decided(name, measured, format!("at least {KERNELS} each"), *least >= KERNELS))
}

/// Checks that recordings lose no kernels while other threads launch kernels and wait for them.
/// CUPTI must stay loaded then.
fn beside_launches(gpu: &Gpu) -> Result<Row, String> {
    let (is_over, launched) = (AtomicBool::new(false), AtomicU64::new(0));
    let launch = || {
        let gpu = Gpu::open()?;
        while !is_over.load(Ordering::Relaxed) {
            gpu.launch(Kernel::Spin, 20)?;
            gpu.wait()?;
            launched.fetch_add(20, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    };
    let mut notes = Vec::new();
    let (counts, threads) = thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(launch));
        let mut one = |_| {
            let work = || gpu.launch(Kernel::Empty, KERNELS).and_then(|()| gpu.wait());
            let recorded = record(Plan::default(), |_| work())?;
            let kernels = recorded.recording.kernels;
            if kernels < KERNELS {
                notes.push(format!("{kernels}: {}", recorded.report.header.notes.join("; ")));
            }
            Ok(kernels)
        };
        let counts: Result<Vec<u64>, String> = (0..RECORDINGS).map(&mut one).collect();
        is_over.store(true, Ordering::Relaxed);
        let threads = threads.map(|thread| thread.join().unwrap_or(Err("a panic".to_owned())));
        (counts, threads)
    });
    let counts = counts?;
    threads.into_iter().collect::<Result<Vec<()>, String>>()?;
    let least = counts.iter().copied().min().unwrap_or(0);
    let mut measured = format!(
        "{} recordings, at least {least} kernels in each; {} launches in parallel",
        counts.len(),
        launched.load(Ordering::Relaxed)
    );
    if let Some(note) = notes.first() {
        measured += &format!("; in {} fewer, the first with {note}", notes.len());
    }
    let name = "recordings: parallel launches";
    Ok(Row::decided(name, measured, format!("at least {KERNELS} each"), least >= KERNELS))
}
