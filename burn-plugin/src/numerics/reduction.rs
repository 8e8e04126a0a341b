//! Reduces tensors on devices whose memory the host cannot read. The reduction starts when the
//! tensor is reported, and its result is read after the step has ended.

use burn::tensor::{Bool, DType, Device, FloatDType, Int, Slice, Tensor, Transaction};
use mlprof_core::hook::{
    DeviceReduction, DeviceReductions, LEAST_NORMAL_F16, ReducedNumbers, Reduction,
};
use mlprof_core::report::numerics::sample_every;

use crate::ops::unseen;

static REDUCTIONS: DeviceReductions<DeviceNumbers> = DeviceReductions::new();

/// Starts a reduction of the tensor that `flat` returns, on that tensor's device. Returns `None` if
/// the device refuses. The launched ops do not count as ops of the program.
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

/// Results of a reduction, in device memory.
struct DeviceNumbers {
    device: Device,
    /// Floating-point results. `None` if only non-finite values are counted.
    floats: Option<Tensor<1>>,
    /// Counts of NaN, infinite and zero values. For `f16` it also counts subnormals. 32-bit
    /// subnormals are not counted, because some devices flush them to 0.
    counts: Tensor<1, Int>,
}

/// Number of floating-point results before the sample.
const FLOATS: usize = 9;

impl DeviceNumbers {
    /// Counts NaN and infinite values.
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

    /// Computes the statistics of the finite values. Values are divided by the largest magnitude
    /// before they are summed, so that no square overflows. Infinite values are masked out, because
    /// some devices compute as if they did not exist.
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
        // The mean of zero finite values is 0.
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

/// Converts the tensor to at least 32 bits, which all devices support.
pub(super) fn wide(tensor: Tensor<1>) -> Tensor<1> {
    if tensor.dtype() == DType::F64 { tensor } else { tensor.cast(FloatDType::F32) }
}

/// Counts the `true` elements.
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
