//! Statistics of tensors that the host cannot read, reduced on their device. A reduction begins
//! when a tensor is reported, and all results are read together after the step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mlprof_events::{Reduced, ReducedNumbers, Reduction, TensorNumbers};

use crate::report::numerics::{StatisticsReader, TensorStatistics, sampled_numbers};

/// Reduced statistics of one tensor, stored on its device in the form of a framework hook. The
/// device treats the tensor as flat, ignores non-finite values and computes both lists:
///
/// | list | contents |
/// |---|---|
/// | floats | minimum, maximum, smallest non-zero magnitude, scale; for the values divided by the scale: a shift near their mean, the sum of deviations from it, the sum of squared deviations, the sum of magnitudes, the sum of squares; then the [sample](Reduced::sample) |
/// | counts | NaNs; infinities; NaNs, infinities and zeros together; subnormals (optional) |
///
/// The scale is the largest magnitude, so that squares do not overflow. Deviations are computed per
/// value. The mean of squares minus the squared mean would lose all precision in 32-bit arithmetic
/// if the values vary little. A [`Reduction::NotFinite`] has no floats and only the first two
/// counts.
pub trait DeviceReduction: Send + 'static {
    /// Type that identifies a device.
    type Device: PartialEq;

    /// Returns the device that holds the results.
    fn device(&self) -> Self::Device;

    /// Reads the results of `all`, which are on one device, with as few transfers as possible. It
    /// waits for the transfers and returns the floats and counts of each reduction, in the given
    /// order. Returns `None` if the device has failed.
    fn read(all: &[&Self]) -> Option<Vec<(Vec<f64>, Vec<u64>)>>;
}

/// Unread reductions of a framework. Reading one of them reads all reductions of every device at
/// once.
///
/// *Cost*: one lock and two small allocations per tensor.
#[derive(Debug, Default)]
pub struct DeviceReductions<R> {
    unread: Mutex<Vec<Weak<Slot<R>>>>,
    /// Serialises waiting for a device. A second thread finds its results already read.
    turn: Mutex<()>,
}

/// Slot with the results of one tensor.
type Slot<R> = Mutex<State<R>>;

#[derive(Debug)]
enum State<R> {
    OnDevice(R),
    BeingRead,
    /// The result, or `None` if the device has failed.
    Read(Option<Reduced>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: DeviceReduction> DeviceReductions<R> {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self { unread: Mutex::new(Vec::new()), turn: Mutex::new(()) }
    }

    /// Begins a reduction on a device. Returns `None` if `begin` returns `None` or panics. A failed
    /// device reports its error when the program itself reads its tensors.
    pub fn begin(
        &'static self,
        begin: impl FnOnce() -> Option<R>,
    ) -> Option<Box<dyn ReducedNumbers>> {
        let reduction = catch_unwind(AssertUnwindSafe(begin)).ok().flatten()?;
        let slot = Arc::new(Mutex::new(State::OnDevice(reduction)));
        lock(&self.unread).push(Arc::downgrade(&slot));
        Some(Box::new(Reading { all: self, slot }))
    }

    fn read_all(&self) {
        let _turn = lock(&self.turn);
        let unread = std::mem::take(&mut *lock(&self.unread));
        let mut devices: Vec<Vec<(Arc<Slot<R>>, R)>> = Vec::new();
        for slot in unread.iter().filter_map(Weak::upgrade) {
            let state = std::mem::replace(&mut *lock(&slot), State::BeingRead);
            let State::OnDevice(reduction) = state else {
                *lock(&slot) = state;
                continue;
            };
            let device = reduction.device();
            match devices.iter_mut().find(|slots| slots[0].1.device() == device) {
                Some(slots) => slots.push((slot, reduction)),
                None => devices.push(vec![(slot, reduction)]),
            }
        }
        for slots in devices {
            let reductions: Vec<&R> = slots.iter().map(|(_, reduction)| reduction).collect();
            let read = catch_unwind(AssertUnwindSafe(|| R::read(&reductions))).ok().flatten();
            let mut read = read.unwrap_or_default().into_iter();
            for (slot, _) in &slots {
                let parts = read.next();
                *lock(slot) =
                    State::Read(parts.and_then(|(floats, counts)| reduced(&floats, &counts)));
            }
        }
    }
}

struct Reading<R: 'static> {
    all: &'static DeviceReductions<R>,
    slot: Arc<Slot<R>>,
}

impl<R: DeviceReduction> ReducedNumbers for Reading<R> {
    fn read(self: Box<Self>) -> Option<Reduced> {
        if !matches!(*lock(&self.slot), State::Read(_)) {
            self.all.read_all();
        }
        match &mut *lock(&self.slot) {
            State::Read(reduced) => reduced.take(),
            State::OnDevice(_) | State::BeingRead => None,
        }
    }
}

/// Converts the lists of [`DeviceReduction`] into a [`Reduced`].
fn reduced(floats: &[f64], counts: &[u64]) -> Option<Reduced> {
    if let ([], [nans, infinities]) = (floats, counts) {
        return Some(Reduced { nans: *nans, infinities: *infinities, ..Reduced::default() });
    }
    let [minimum, maximum, least_magnitude, scale, scaled @ ..] = floats else { return None };
    let [shift, deviation, deviation_squares, absolute, squares, sample @ ..] = scaled else {
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
        shift: shift * scale,
        deviation: deviation * scale,
        deviation_squares: deviation_squares * scale * scale,
        absolute: absolute * scale,
        squares: squares * scale * scale,
        sample: sample.to_vec(),
    })
}

/// Returns difficult test inputs for the reductions of plugins: a name, the tensor's data type and
/// its values.
#[doc(hidden)]
pub fn numbers_to_reduce() -> Vec<(&'static str, &'static str, Vec<f32>)> {
    let many: Vec<f32> = (0..1000).map(|place| (place as f32 * 0.37).sin() - 0.2).collect();
    // These values are near 1, with a deviation typical of normalisation weights.
    let near_one: Vec<f32> = many.iter().map(|number| 1.0 + number * 1e-4).collect();
    let mut spoilt = many.clone();
    spoilt[3..6].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    vec![
        ("many", "f32", many),
        ("spoilt", "f32", spoilt.clone()),
        ("near one", "f32", near_one.clone()),
        ("near one, half not finite", "f32", [near_one, vec![f32::NAN; 1000]].concat()),
        ("the same", "f32", vec![0.1; 1000]),
        ("zeros", "f32", vec![0.0; 40]),
        ("large", "f32", vec![3e38, -1e30, 0.0]),
        ("small", "f32", vec![1e-30, -2e-30]),
        ("none finite", "f32", vec![f32::NAN, f32::INFINITY]),
        ("empty", "f32", Vec::new()),
        ("of 64 bits", "f64", spoilt.clone()),
        ("of 16 bits", "f16", vec![1e-6, 1.0, 0.0, -300.0]),
        ("of 16 bits, with large exponents", "bf16", spoilt),
    ]
}

/// Asserts that the reduction on a device gives the same results as reading the tensor on the host.
/// For the tests of plugins.
///
/// # Panics
///
/// Panics if the results differ.
#[doc(hidden)]
pub fn assert_reduces_as_read(tensor: &dyn TensorNumbers, what: &str) {
    let mut reader = StatisticsReader::of_shape(&tensor.shape());
    assert!(tensor.read(&mut reader), "{what}");
    let begin = |reduction| tensor.reduce(reduction).expect("it can");
    // Both reductions are read in one batch.
    let (counted, all) = (begin(Reduction::NotFinite), begin(Reduction::Statistics));
    let reduced = all.read().expect("it has not failed");
    let counted = counted.read().expect("it has not failed");
    let read = reader.statistics();
    let nothing_else =
        Reduced { nans: read.nans, infinities: read.infinities, ..Reduced::default() };
    assert_eq!(counted, nothing_else, "{what}");
    let device = TensorStatistics::of_reduced(read.count, &reduced);
    let counts =
        |it: &TensorStatistics| (it.count, it.nans, it.infinities, it.zeros, it.subnormals);
    assert_eq!(counts(&device), counts(&read), "{what}");
    let extremes = |it: &TensorStatistics| (it.minimum, it.maximum, it.least_magnitude);
    assert_eq!(extremes(&device), extremes(&read), "{what}");
    assert_eq!(device.mean.is_some(), read.mean.is_some(), "{what}");
    let mean = |it: &TensorStatistics| it.mean.unwrap_or(0.0) + it.root_mean_square();
    let pairs = [
        (device.l1_norm, read.l1_norm),
        (device.l2_norm, read.l2_norm),
        (mean(&device), mean(&read)),
    ];
    let deviations = (device.standard_deviation, read.standard_deviation);
    assert_eq!(deviations.0.is_some(), deviations.1.is_some(), "{what}");
    if let (Some(one), Some(other)) = deviations {
        // Dividing by the scale rounds each value.
        let least = f64::from(f32::EPSILON) * read.root_mean_square();
        assert!((one - other).abs() <= 1e-3 * other + least, "{what}: {one} {other}");
    }
    for (one, other) in pairs {
        let size = one.abs().max(other.abs()).max(f64::from(f32::MIN_POSITIVE));
        assert!((one - other).abs() <= 1e-5 * size, "{what}: {one} {other}");
    }
    assert_eq!(sampled_numbers(&reduced.sample), reader.sample(), "{what}");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Sum on the device with this number. Device 9 panics, and device 8 fails. A negative sum
    /// stands for a reduction that only counted non-finite values.
    struct Sum(u8, f64);

    /// Number of transfers from devices below 10.
    static TRANSFERS: AtomicUsize = AtomicUsize::new(0);

    impl DeviceReduction for Sum {
        type Device = u8;

        fn device(&self) -> u8 {
            self.0
        }

        fn read(all: &[&Self]) -> Option<Vec<(Vec<f64>, Vec<u64>)>> {
            TRANSFERS.fetch_add(usize::from(all[0].0 < 10), Ordering::Relaxed);
            assert_ne!(all[0].0, 9, "it is gone");
            let parts = |it: &&Self| match it.1 < 0.0 {
                true => (Vec::new(), vec![3, 4]),
                false => {
                    let floats = vec![-1.0, 1.0, 0.5, 2.0, 0.25, it.1, 3.0, 4.0, 8.0, 7.0];
                    (floats, vec![1, 2, 7])
                }
            };
            (all[0].0 != 8).then(|| all.iter().map(parts).collect())
        }
    }

    static ALL: DeviceReductions<Sum> = DeviceReductions::new();

    #[test]
    fn all_of_a_device_are_read_at_once_in_any_order() {
        let begin = |device: u8, sum: f64| ALL.begin(|| Some(Sum(device, sum))).expect("it can");
        let (first, unread, last) = (begin(1, 1.0), begin(1, 2.0), begin(1, 3.0));
        let (other, failed, gone) = (begin(2, 4.0), begin(8, 0.0), begin(9, 0.0));
        drop(unread);
        let sum =
            |reading: Box<dyn ReducedNumbers>| reading.read().map(|reduced| reduced.deviation);
        assert_eq!(
            [last, other, first].map(sum),
            [Some(6.0), Some(8.0), Some(2.0)],
            "by the scale"
        );
        assert_eq!([failed, gone].map(sum), [None, None]);
        assert_eq!(TRANSFERS.load(Ordering::Relaxed), 4, "one for each device");
        let later = begin(1, 5.0).read().expect("it has not failed");
        assert_eq!((later.nans, later.infinities, later.zeros, later.subnormals), (1, 2, 4, 0));
        assert_eq!((later.shift, later.deviation_squares), (0.5, 12.0));
        assert_eq!((later.absolute, later.squares, later.sample), (8.0, 32.0, vec![7.0]));
        let counted = begin(1, -1.0).read();
        let counts = Reduced { nans: 3, infinities: 4, ..Reduced::default() };
        assert_eq!(counted, Some(counts), "and nothing else is known");
        assert!(ALL.begin(|| None).is_none());
        assert!(ALL.begin(|| panic!("no such op")).is_none());
    }

    #[test]
    fn threads_that_read_at_the_same_time_all_get_theirs() {
        static OWN: DeviceReductions<Sum> = DeviceReductions::new();
        let read = |thread: u32| {
            for number in 0..200 {
                let wanted = f64::from(thread * 1000 + number);
                let reading = OWN.begin(|| Some(Sum(10, wanted))).expect("it can");
                assert_eq!(reading.read().map(|reduced| reduced.deviation), Some(2.0 * wanted));
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || read(thread));
            }
        });
    }
}
