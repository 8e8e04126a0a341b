//! Reductions of tensors on their device: launched when a tensor is observed, read when the step
//! has ended.

use mlprof_core::hook::{
    self, DeviceReduction, DeviceReductions, LEAST_NORMAL_F16, ReducedNumbers, Reduction,
};
use mlprof_core::report::numerics::sample_every;
use tch::{Device, Kind, TchError, Tensor};

static REDUCTIONS: DeviceReductions<DeviceNumbers> = DeviceReductions::new();

/// Launches the reduction of the flat tensor that `flat` returns; `None` if the device refuses it.
/// The launched ops are not counted as the program's.
pub(super) fn begin(
    reduction: Reduction,
    flat: impl FnOnce() -> Result<Tensor, TchError>,
) -> Option<Box<dyn ReducedNumbers>> {
    let reduce = || match reduction {
        Reduction::NotFinite => DeviceNumbers::not_finite(&flat()?),
        Reduction::Statistics => DeviceNumbers::of(&flat()?),
    };
    REDUCTIONS.begin(|| hook::unseen(|| tch::no_grad(reduce)).ok())
}

/// Results of a reduction in device memory, in the layout of [`DeviceReduction`].
struct DeviceNumbers {
    /// `None` if only numbers that are not finite are counted.
    floats: Option<Tensor>,
    counts: Tensor,
}

/// Number of floats before the sample, and how many are counted.
const FLOATS: i64 = 9;
const COUNTS: i64 = 4;

impl DeviceNumbers {
    /// Counts NaN and infinite values.
    fn not_finite(tensor: &Tensor) -> Result<Self, TchError> {
        let counts = [number(&tensor.f_isnan()?)?, number(&tensor.f_isinf()?)?];
        Ok(Self { floats: None, counts: Tensor::f_stack(&counts, 0)? })
    }

    fn of(tensor: &Tensor) -> Result<Self, TchError> {
        let Ok(count @ 1..) = u64::try_from(tensor.numel()) else {
            let zeros = |count, kind| Tensor::f_zeros([count], (kind, tensor.device()));
            let counts = zeros(COUNTS, Kind::Int64)?;
            return Ok(Self { floats: Some(zeros(FLOATS, Kind::Float)?), counts });
        };
        let kind = computed_with(tensor);
        let (largest, least) = match kind {
            Kind::Double => (f64::MAX, f64::MIN_POSITIVE),
            _ => (f32::MAX.into(), f32::MIN_POSITIVE.into()),
        };
        // The limit depends on the original type, because 16-bit subnormals are normal numbers
        // after widening.
        let least_normal = match tensor.kind() {
            Kind::Half => LEAST_NORMAL_F16,
            Kind::BFloat16 | Kind::Float => f32::MIN_POSITIVE.into(),
            Kind::Double => f64::MIN_POSITIVE,
            _ => 0.0,
        };
        let tensor = wide(tensor)?;
        let (nan, infinite) = (tensor.f_isnan()?, tensor.f_isinf()?);
        let is_not_finite = nan.f_logical_or(&infinite)?;
        let or = |number: f64| tensor.f_masked_fill(&is_not_finite, number);
        let finite = or(0.0)?;
        let magnitude = finite.f_abs()?;
        let is_zero = magnitude.f_eq(0.0)?;
        let is_small = magnitude.f_lt(least_normal)?.f_logical_and(&is_zero.f_logical_not()?)?;
        let scale = magnitude.f_max()?.f_clamp_min(least)?;
        let scaled = finite.f_div(&scale)?;
        let is_finite = is_not_finite.f_logical_not()?;
        // The mean of zero finite values is 0.
        let finite_count = is_finite.f_sum(kind)?.f_clamp_min(1.0)?;
        let mean = scaled.f_sum(kind)?.f_div(&finite_count)?;
        let deviation = scaled.f_sub(&mean)?.f_masked_fill(&is_not_finite, 0.0)?;
        let parts = [
            or(largest)?.f_min()?,
            or(-largest)?.f_max()?,
            magnitude.f_masked_fill(&is_zero, largest)?.f_min()?,
            scale,
            mean,
            deviation.f_sum(kind)?,
            deviation.f_square()?.f_sum(kind)?,
            scaled.f_abs()?.f_sum(kind)?,
            scaled.f_square()?.f_sum(kind)?,
        ];
        let every = sample_every(count).cast_signed();
        let sample = tensor.f_slice(0, 0, None, every)?;
        let counts = [nan, infinite, is_zero, is_small];
        let counts: Result<Vec<_>, _> = counts.iter().map(number).collect();
        let floats = Tensor::f_cat(&[Tensor::f_stack(&parts, 0)?, sample], 0)?;
        Ok(Self { floats: Some(floats), counts: Tensor::f_stack(&counts?, 0)? })
    }
}

/// Returns the element type used for the reduction of a tensor.
fn computed_with(tensor: &Tensor) -> Kind {
    if tensor.kind() == Kind::Double { Kind::Double } else { Kind::Float }
}

/// Returns the tensor in the element type used for the reduction.
pub(super) fn wide(tensor: &Tensor) -> Result<Tensor, TchError> {
    tensor.f_to_kind(computed_with(tensor))
}

/// Returns in how many places a mask is set.
fn number(mask: &Tensor) -> Result<Tensor, TchError> {
    mask.f_sum(Kind::Int64)
}

/// Copies the concatenated numbers of several flat tensors of a device to the host in one transfer.
fn on_host(tensors: &[&Tensor]) -> Result<Tensor, TchError> {
    Tensor::f_cat(tensors, 0)?.f_to_device(Device::Cpu)
}

/// Returns the number of elements of a flat tensor.
fn length(tensor: &Tensor) -> usize {
    tensor.size()[0].cast_unsigned() as usize
}

impl DeviceReduction for DeviceNumbers {
    type Device = Device;

    fn device(&self) -> Device {
        self.counts.device()
    }

    /// Reads all results with two transfers per device.
    fn read(all: &[&Self]) -> Option<Vec<(Vec<f64>, Vec<u64>)>> {
        hook::unseen(|| {
            let floats: Vec<&Tensor> = all.iter().filter_map(|it| it.floats.as_ref()).collect();
            let counts: Vec<&Tensor> = all.iter().map(|it| &it.counts).collect();
            let floats: Vec<f64> = match floats.as_slice() {
                [] => Vec::new(),
                some => on_host(some).ok()?.f_to_kind(Kind::Double).ok()?.try_into().ok()?,
            };
            let counts: Vec<i64> = on_host(&counts).ok()?.try_into().ok()?;
            let (mut floats, mut counts) = (floats.as_slice(), counts.as_slice());
            let parts = all.iter().map(|it| {
                let floats = floats.split_off(..it.floats.as_ref().map_or(0, length))?;
                let counts = counts.split_off(..length(&it.counts))?;
                Some((floats.to_vec(), counts.iter().map(|count| count.unsigned_abs()).collect()))
            });
            parts.collect()
        })
    }
}
