//! A small learning problem and report lookups for tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{Linear, VarMap, linear, loss::cross_entropy};
use mlprof_candle::prelude::*;
use mlprof_core::SimpleProfiler;

/// Serialises tests that activate a profiler, because a process has one active profiler.
pub fn take_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Points in a plane, and the side of a line on which each point lies.
pub type Points = (Tensor, Tensor);

/// Returns the same points in every run.
pub fn points(count: usize) -> Result<Points> {
    let coordinate = |number: usize| (number * 37 % 101) as f32 / 50.0 - 1.0;
    let coordinates: Vec<f32> = (0..2 * count).map(coordinate).collect();
    let sides = coordinates.chunks(2).map(|point| u32::from(point[0] + 0.5 * point[1] > 0.1));
    let sides = Tensor::from_iter(sides, &Device::Cpu)?;
    Ok((Tensor::from_vec(coordinates, (count, 2), &Device::Cpu)?, sides))
}

/// Returns `count` batches of 8 points.
pub fn batches(count: usize) -> Result<Vec<Points>> {
    let (points, sides) = points(8 * count)?;
    let batch = |index| Ok((points.narrow(0, 8 * index, 8)?, sides.narrow(0, 8 * index, 8)?));
    (0..count).map(batch).collect()
}

/// Two profiled layers.
pub struct Net {
    pub vars: VarMap,
    hidden: ProfiledLayer<Linear>,
    out: ProfiledLayer<Linear>,
}

impl Net {
    pub fn new() -> Result<Self> {
        let vars = VarMap::new();
        let vb = seeded_var_builder(&vars, 7, DType::F32, &Device::Cpu);
        let vb = vb.pp("net");
        let hidden = vb.pp("hidden").profile_layer(|vb| linear(2, 16, vb))?;
        let out = vb.pp("out").profile_layer(|vb| linear(16, 2, vb))?;
        Ok(Self { vars, hidden, out })
    }

    pub fn loss(&self, (points, sides): &Points) -> Result<Tensor> {
        cross_entropy(&self.forward(points)?, sides)
    }

    /// Returns the bits of every weight.
    pub fn bits(&self) -> Result<Vec<u32>> {
        bits(vars_by_name(&self.vars).iter().map(|var| var.as_tensor()))
    }
}

impl Module for Net {
    fn forward(&self, points: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.hidden.forward(points)?.relu()?)
    }
}

pub const HIDDEN_ROW: &str = "[module]Linear: net.hidden";
pub const OUT_ROW: &str = "[module]Linear: net.out";

/// Returns the bits of all numbers in several tensors.
pub fn bits<'tensor>(tensors: impl Iterator<Item = &'tensor Tensor>) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for tensor in tensors {
        all.extend(tensor.flatten_all()?.to_vec1::<f32>()?.into_iter().map(f32::to_bits));
    }
    Ok(all)
}

/// Returns the number of calls of an action, or 0 if it is not in the report.
pub fn calls(profiler: &SimpleProfiler, action: &str) -> u64 {
    let report = profiler.snapshot();
    report.actions.iter().find(|row| row.action == action).map_or(0, |row| row.calls)
}
