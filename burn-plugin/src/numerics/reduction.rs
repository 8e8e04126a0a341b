//! What a device makes of a tensor that the host cannot read: begun where the tensor is told of, read when the step has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use burn::tensor::{Bool, DType, Device, FloatDType, Int, Slice, Tensor, Transaction};
use profiler_core::hook::{Reduced, ReducedNumbers};
use profiler_core::report::numerics::sample_every;

use crate::ops::unseen;

/// The smallest positive `f16` that is not subnormal, 2⁻¹⁴.
pub(super) const LEAST_NORMAL_F16: f64 = 6.103_515_625e-5;

/// Has the device of the tensor that `flat` returns reduce it; `None` if it refuses. What is launched is no op of the program's.
pub(super) fn begin(flat: impl FnOnce() -> Tensor<1>) -> Option<Box<dyn ReducedNumbers>> {
    // A device that has failed says so where the program reads its tensors.
    let begun = catch_unwind(AssertUnwindSafe(|| unseen(|| Reduction::of(flat()))));
    let slot = Arc::new(Slot(Mutex::new(State::OnDevice(Box::new(begun.ok()?)))));
    lock(&UNREAD).push(Arc::downgrade(&slot));
    Some(Box::new(Reading(slot)))
}

/// A few numbers on the device.
struct Reduction {
    device: Device,
    /// Minimum, maximum, least magnitude, scale; sum, absolute sum and squares, by that scale; then the sample.
    floats: Tensor<1>,
    /// NaN, infinite, these and zeros; of `f16` subnormals, too: those of 32 bits some devices take for 0.
    counts: Tensor<1, Int>,
}

/// How many numbers come before the sample.
const FLOATS: usize = 7;

impl Reduction {
    /// Extremes and sums are those of finite numbers. Sums are of quotients with the largest, so that no square is too large. No
    /// infinite number is computed with, which some devices take for one that there is not.
    fn of(tensor: Tensor<1>) -> Self {
        let device = tensor.device();
        let count = tensor.dims()[0];
        if count == 0 {
            let floats = Tensor::zeros([FLOATS], &device);
            return Self { floats, counts: Tensor::zeros([3], &device), device };
        }
        let is_half = tensor.dtype() == DType::F16;
        let (tensor, largest, least) = match tensor.dtype() {
            DType::F64 => (tensor, f64::MAX, f64::MIN_POSITIVE),
            _ => (tensor.cast(FloatDType::F32), f32::MAX.into(), f32::MIN_POSITIVE.into()),
        };
        let (nan, infinite) = (tensor.clone().is_nan(), tensor.clone().is_inf());
        let is_not_finite = nan.clone().bool_or(infinite.clone());
        let or = |number: f64| tensor.clone().mask_fill(is_not_finite.clone(), number);
        let finite = or(0.0);
        let magnitude = finite.clone().abs();
        let is_zero = magnitude.clone().equal_elem(0.0);
        let scale = magnitude.clone().max().clamp_min(least);
        let scaled = finite / scale.clone();
        let number = |mask: Tensor<1, Bool>| mask.int().sum();
        let mut counts = vec![number(nan), number(infinite), number(is_zero.clone())];
        if is_half {
            let is_small = magnitude.clone().lower_elem(LEAST_NORMAL_F16);
            counts.push(number(is_small.bool_and(is_zero.clone().bool_not())));
        }
        let every = sample_every(count as u64) as isize;
        let floats = vec![
            or(largest).min(),
            or(-largest).max(),
            magnitude.mask_fill(is_zero, largest).min(),
            scale,
            scaled.clone().sum(),
            scaled.clone().abs().sum(),
            (scaled.clone() * scaled).sum(),
            tensor.clone().slice([Slice::new(0, None, every)]),
        ];
        Self { floats: Tensor::cat(floats, 0), counts: Tensor::cat(counts, 0), device }
    }
}

/// What came of it.
fn reduced(floats: &[f64], counts: &[u64]) -> Option<Reduced> {
    let [minimum, maximum, least_magnitude, scale, sum, absolute, squares, sample @ ..] = floats
    else {
        return None;
    };
    let [nans, infinities, masked, subnormals @ ..] = counts else { return None };
    Some(Reduced {
        nans: *nans,
        infinities: *infinities,
        zeros: masked.saturating_sub(nans + infinities),
        subnormals: subnormals.first().copied().unwrap_or(0),
        minimum: *minimum,
        maximum: *maximum,
        least_magnitude: *least_magnitude,
        sum: sum * scale,
        absolute: absolute * scale,
        squares: squares * scale * scale,
        sample: sample.to_vec(),
    })
}

enum State {
    OnDevice(Box<Reduction>),
    /// `None` if the device has failed.
    Read(Option<Reduced>),
}

/// Where the numbers are.
struct Slot(Mutex<State>);

/// All that was begun and may not have been read. The first that is asked for has all of a device read at once.
static UNREAD: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reading(Arc<Slot>);

impl ReducedNumbers for Reading {
    fn read(self: Box<Self>) -> Option<Reduced> {
        if matches!(*lock(&self.0.0), State::OnDevice(_)) {
            read_all();
        }
        match &mut *lock(&self.0.0) {
            State::Read(reduced) => reduced.take(),
            State::OnDevice(_) => None,
        }
    }
}

fn read_all() {
    // Held while the device is waited for: who comes second finds everything read.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = lock(&TURN);
    let unread = std::mem::take(&mut *lock(&UNREAD));
    let mut devices: Vec<(Device, Vec<Arc<Slot>>)> = Vec::new();
    for slot in unread.iter().filter_map(Weak::upgrade) {
        let State::OnDevice(reduction) = &*lock(&slot.0) else { continue };
        let device = reduction.device.clone();
        match devices.iter_mut().find(|(known, _)| *known == device) {
            Some((_, slots)) => slots.push(slot.clone()),
            None => devices.push((device, vec![slot.clone()])),
        }
    }
    for (_, slots) in devices {
        let read = catch_unwind(AssertUnwindSafe(|| unseen(|| read_device(&slots)))).ok().flatten();
        let mut read = read.unwrap_or_default().into_iter();
        for slot in slots {
            *lock(&slot.0) = State::Read(read.next().flatten());
        }
    }
}

/// One transfer for all tensors of a device.
fn read_device(slots: &[Arc<Slot>]) -> Option<Vec<Option<Reduced>>> {
    let mut transaction = Transaction::default();
    for slot in slots {
        let State::OnDevice(reduction) = &*lock(&slot.0) else { return None };
        transaction =
            transaction.register(reduction.floats.clone()).register(reduction.counts.clone());
    }
    let data = transaction.try_execute().ok()?;
    let pairs = data.chunks_exact(2).map(|pair| {
        let floats: Vec<f64> = pair[0].iter().collect();
        let counts: Vec<u64> = pair[1].iter().map(i64::unsigned_abs).collect();
        reduced(&floats, &counts)
    });
    Some(pairs.collect())
}
