//! What a device makes of a tensor that the host cannot read: begun where the tensor is told of, read when the step has ended.

use burn::tensor::{Bool, DType, Device, FloatDType, Int, Slice, Tensor, Transaction};
use mlprof_core::hook::{
    DeviceReduction, DeviceReductions, LEAST_NORMAL_F16, ReducedNumbers, Reduction,
};
use mlprof_core::report::numerics::sample_every;

use crate::ops::unseen;

static REDUCTIONS: DeviceReductions<DeviceNumbers> = DeviceReductions::new();

/// Has the device of the tensor that `flat` returns reduce it; `None` if it refuses. What is launched is no op of the program's.
pub(super) fn begin(
    reduction: Reduction,
    flat: impl FnOnce() -> Tensor<1>,
) -> Option<Box<dyn ReducedNumbers>> {
    let reduce = || match reduction {
        Reduction::NotFinite => DeviceNumbers::not_finite(flat()),
        Reduction::Statistics => DeviceNumbers::of(flat()),
    };
    REDUCTIONS.begin(|| Some(unseen(reduce)))
}

/// A few numbers on the device.
struct DeviceNumbers {
    device: Device,
    /// None where only what is not finite is counted.
    floats: Option<Tensor<1>>,
    /// Of `f16` subnormals, too: those of 32 bits some devices take for 0.
    counts: Tensor<1, Int>,
}

/// How many numbers come before the sample.
const FLOATS: usize = 9;

impl DeviceNumbers {
    /// How many are NaN, and how many infinite.
    fn not_finite(tensor: Tensor<1>) -> Self {
        let device = tensor.device();
        let counts = match tensor.dims()[0] {
            0 => Tensor::zeros([2], &device),
            _ => {
                let tensor = wide(tensor);
                Tensor::cat(vec![number(tensor.clone().is_nan()), number(tensor.is_inf())], 0)
            }
        };
        Self { device, floats: None, counts }
    }

    /// Extremes and sums are those of finite numbers. Sums are of quotients with the largest, so that no square is too large. No
    /// infinite number is computed with, which some devices take for one that there is not.
    fn of(tensor: Tensor<1>) -> Self {
        let device = tensor.device();
        let count = tensor.dims()[0];
        if count == 0 {
            let floats = Some(Tensor::zeros([FLOATS], &device));
            return Self { floats, counts: Tensor::zeros([3], &device), device };
        }
        let is_half = tensor.dtype() == DType::F16;
        let tensor = wide(tensor);
        let (largest, least) = match tensor.dtype() {
            DType::F64 => (f64::MAX, f64::MIN_POSITIVE),
            _ => (f32::MAX.into(), f32::MIN_POSITIVE.into()),
        };
        let (nan, infinite) = (tensor.clone().is_nan(), tensor.clone().is_inf());
        let is_not_finite = nan.clone().bool_or(infinite.clone());
        let or = |number: f64| tensor.clone().mask_fill(is_not_finite.clone(), number);
        let finite = or(0.0);
        let magnitude = finite.clone().abs();
        let is_zero = magnitude.clone().equal_elem(0.0);
        let scale = magnitude.clone().max().clamp_min(least);
        let scaled = finite / scale.clone();
        // Of no number the mean is 0.
        let finite_count = scaled.ones_like().mask_fill(is_not_finite.clone(), 0.0).sum();
        let mean = scaled.clone().sum() / finite_count.clamp_min(1.0);
        let deviation = (scaled.clone() - mean.clone()).mask_fill(is_not_finite.clone(), 0.0);
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
            mean,
            deviation.clone().sum(),
            (deviation.clone() * deviation).sum(),
            scaled.clone().abs().sum(),
            (scaled.clone() * scaled).sum(),
            tensor.clone().slice([Slice::new(0, None, every)]),
        ];
        Self { floats: Some(Tensor::cat(floats, 0)), counts: Tensor::cat(counts, 0), device }
    }
}

/// In 32 bits at least, which all devices compute with.
pub(super) fn wide(tensor: Tensor<1>) -> Tensor<1> {
    if tensor.dtype() == DType::F64 { tensor } else { tensor.cast(FloatDType::F32) }
}

/// How many are true.
fn number(mask: Tensor<1, Bool>) -> Tensor<1, Int> {
    mask.int().sum()
}

impl DeviceReduction for DeviceNumbers {
    type Device = Device;

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn read(all: &[&Self]) -> Option<Vec<(Vec<f64>, Vec<u64>)>> {
        let transaction = all.iter().fold(Transaction::default(), |transaction, it| {
            let with_floats = match &it.floats {
                Some(floats) => transaction.register(floats.clone()),
                None => transaction,
            };
            with_floats.register(it.counts.clone())
        });
        let mut data = unseen(|| transaction.try_execute().ok())?.into_iter();
        let mut read = |it: &&Self| {
            let floats = match it.floats {
                Some(_) => data.next()?.iter().collect(),
                None => Vec::new(),
            };
            Some((floats, data.next()?.iter().map(i64::unsigned_abs).collect()))
        };
        all.iter().map(&mut read).collect()
    }
}
