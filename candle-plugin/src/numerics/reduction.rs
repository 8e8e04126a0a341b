//! Reductions of tensors on their device: launched when a tensor is observed, read when the step
//! has ended.

use candle_core::{DType, Device, DeviceLocation, Result, Tensor};
use mlprof_core::hook::{
    self, DeviceReduction, DeviceReductions, LEAST_NORMAL_F16, ReducedNumbers, Reduction,
};
use mlprof_core::report::numerics::sample_every;

static REDUCTIONS: DeviceReductions<DeviceNumbers> = DeviceReductions::new();

/// Launches the reduction of the flat tensor that `flat` returns; `None` if the device refuses it.
/// The launched ops are not counted as the program's.
pub(super) fn begin(
    reduction: Reduction,
    flat: impl FnOnce() -> Result<Tensor>,
) -> Option<Box<dyn ReducedNumbers>> {
    let reduce = || match reduction {
        Reduction::NotFinite => DeviceNumbers::not_finite(&flat()?),
        Reduction::Statistics => DeviceNumbers::of(&flat()?),
    };
    REDUCTIONS.begin(|| hook::unseen(reduce).ok())
}

/// Results of a reduction in device memory, in the layout of [`DeviceReduction`].
struct DeviceNumbers {
    /// `None` if only numbers that are not finite are counted.
    floats: Option<Tensor>,
    counts: Tensor,
}

/// Number of floats before the sample.
const FLOATS: usize = 9;

impl DeviceNumbers {
    /// Counts NaN and infinite values.
    fn not_finite(tensor: &Tensor) -> Result<Self> {
        let counts = match tensor.elem_count() {
            0 => Tensor::zeros(2, DType::U32, tensor.device())?,
            _ => {
                let tensor = wide(tensor)?;
                Tensor::stack(&[number(&nan(&tensor)?)?, number(&infinite(&tensor)?)?], 0)?
            }
        };
        Ok(Self { floats: None, counts })
    }

    fn of(tensor: &Tensor) -> Result<Self> {
        let (device, count) = (tensor.device(), tensor.elem_count());
        if count == 0 {
            let floats = Some(Tensor::zeros(FLOATS, DType::F32, device)?);
            return Ok(Self { floats, counts: Tensor::zeros(4, DType::U32, device)? });
        }
        let kind = computed_with(tensor);
        let (largest, least) = match kind {
            DType::F64 => (f64::MAX, f64::MIN_POSITIVE),
            _ => (f32::MAX.into(), f32::MIN_POSITIVE.into()),
        };
        // The limit depends on the original type, because 16-bit subnormals are normal numbers
        // after widening.
        let least_normal = match tensor.dtype() {
            DType::F16 => LEAST_NORMAL_F16,
            DType::BF16 | DType::F32 => f32::MIN_POSITIVE.into(),
            DType::F64 => f64::MIN_POSITIVE,
            _ => 0.0,
        };
        let tensor = wide(tensor)?;
        let filled = |number: f64| tensor.ones_like()?.affine(0.0, number);
        let (nan, infinite) = (nan(&tensor)?, infinite(&tensor)?);
        // `maximum` is avoided, because it would be compiled for 16 element types in each crate
        // that calls it.
        let is_not_finite = nan.broadcast_maximum(&infinite)?;
        let or = |number: f64| is_not_finite.where_cond(&filled(number)?, &tensor);
        let finite = or(0.0)?;
        let magnitude = finite.abs()?;
        let is_zero = magnitude.eq(0.0)?;
        let is_small = magnitude.lt(least_normal)?.broadcast_minimum(&magnitude.gt(0.0)?)?;
        let scale = at_least(&magnitude.max(0)?, least)?;
        let scaled = finite.broadcast_div(&scale)?;
        let others = is_not_finite.to_dtype(kind)?.sum_all()?;
        // This is the number of finite values, at least 1. The mean of zero finite values is
        // therefore 0.
        let finite_count = at_least(&others.affine(-1.0, count as f64)?, 1.0)?;
        let mean = scaled.sum_all()?.div(&finite_count)?;
        let deviation = scaled.broadcast_sub(&mean)?;
        let deviation = is_not_finite.where_cond(&deviation.zeros_like()?, &deviation)?;
        let parts = [
            or(largest)?.min(0)?,
            or(-largest)?.max(0)?,
            is_zero.where_cond(&filled(largest)?, &magnitude)?.min(0)?,
            scale,
            mean,
            deviation.sum_all()?,
            deviation.sqr()?.sum_all()?,
            scaled.abs()?.sum_all()?,
            scaled.sqr()?.sum_all()?,
        ];
        let every = sample_every(count as u64) as usize;
        let places: Vec<u32> = (0..count).step_by(every).map(|place| place as u32).collect();
        let sample = tensor.index_select(&Tensor::new(places, device)?, 0)?;
        let counts = [nan, infinite, is_zero, is_small];
        let counts: Result<Vec<_>> = counts.iter().map(number).collect();
        Ok(Self {
            floats: Some(Tensor::cat(&[Tensor::stack(&parts, 0)?, sample], 0)?),
            counts: Tensor::stack(&counts?, 0)?,
        })
    }
}

/// Returns the element type used for the reduction, because candle cannot compare values of all
/// types.
fn computed_with(tensor: &Tensor) -> DType {
    if tensor.dtype() == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Returns the tensor in the element type used for the reduction.
pub(super) fn wide(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(computed_with(tensor))
}

/// Returns a mask of the NaN values.
fn nan(tensor: &Tensor) -> Result<Tensor> {
    tensor.ne(tensor)
}

/// Returns a mask of the infinite values.
fn infinite(tensor: &Tensor) -> Result<Tensor> {
    tensor.abs()?.eq(f64::INFINITY)
}

/// Returns the values, with smaller ones replaced by `least`.
fn at_least(tensor: &Tensor, least: f64) -> Result<Tensor> {
    tensor.broadcast_maximum(&tensor.ones_like()?.affine(0.0, least)?)
}

/// Returns in how many places a mask is set.
fn number(mask: &Tensor) -> Result<Tensor> {
    mask.to_dtype(DType::U32)?.sum_all()
}

impl DeviceReduction for DeviceNumbers {
    type Device = DeviceLocation;

    fn device(&self) -> DeviceLocation {
        self.counts.device().location()
    }

    /// Reads all results with two transfers per element type and device.
    fn read(all: &[&Self]) -> Option<Vec<(Vec<f64>, Vec<u64>)>> {
        let floats: Vec<_> = all.iter().filter_map(|it| it.floats.as_ref()).collect();
        let counts: Vec<_> = all.iter().map(|it| &it.counts).collect();
        hook::unseen(|| {
            let mut floats = on_host::<f64>(&floats, DType::F64)?.into_iter();
            let counts = on_host::<u32>(&counts, DType::U32)?.into_iter();
            let both = |(it, counts): (&&Self, Vec<u32>)| {
                let floats = it.floats.as_ref().and_then(|_| floats.next());
                (floats.unwrap_or_default(), counts.into_iter().map(u64::from).collect())
            };
            Result::Ok(all.iter().zip(counts).map(both).collect())
        })
        .ok()
    }
}

/// Copies the numbers of several flat tensors to the host.
fn on_host<T: candle_core::WithDType>(tensors: &[&Tensor], dtype: DType) -> Result<Vec<Vec<T>>> {
    // Concatenated tensors must have one type, and not every device supports all conversions.
    let mut read = vec![Vec::new(); tensors.len()];
    let mut kinds: Vec<DType> = tensors.iter().map(|tensor| tensor.dtype()).collect();
    kinds.sort_by_key(DType::as_str);
    kinds.dedup();
    for kind in kinds {
        let of_kind = || tensors.iter().enumerate().filter(|(_, it)| it.dtype() == kind);
        let together: Vec<_> = of_kind().map(|(_, tensor)| *tensor).collect();
        let together = Tensor::cat(&together, 0)?.to_device(&Device::Cpu)?.to_dtype(dtype)?;
        let mut numbers = together.to_vec1::<T>()?.into_iter();
        for (place, tensor) in of_kind() {
            read[place] = numbers.by_ref().take(tensor.elem_count()).collect();
        }
    }
    Ok(read)
}
