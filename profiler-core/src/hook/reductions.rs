//! What devices make of tensors that the host cannot read: begun where a tensor is told of, read together when the step has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mlprof_events::{Reduced, ReducedNumbers, Reduction, TensorNumbers};

use crate::report::numerics::{StatisticsReader, TensorStatistics, sampled_numbers};

/// A few numbers on a device, made of a tensor, as a framework's hook keeps them. Both lists are computed on the device, from the tensor
/// as a flat one whose numbers that are not finite are left out:
///
/// | list | what is in it |
/// |---|---|
/// | floats | minimum, maximum, the least magnitude that is not 0, the scale; of the numbers divided by the scale: a number near their mean, the sum of the deviations from it and the sum of their squares, the sum of magnitudes, the sum of squares; then the [sample](Reduced::sample) |
/// | counts | NaN; infinite; these and zeros together; subnormal, which may be missing |
///
/// The scale is the largest magnitude, so that no square is too large. Deviations are computed
/// number by number: with the 32 bits that devices have, the difference of the mean of squares and
/// the squared mean has no digit where numbers vary little. Of a [`Reduction::NotFinite`] there are
/// no floats, and the first two counts.
pub trait DeviceReduction: Send + 'static {
    /// What tells devices apart.
    type Device: PartialEq;

    /// The device that the numbers are on.
    fn device(&self) -> Self::Device;

    /// Reads all of these, which are on one device, with as few transfers as possible, and waits for them: the floats and the counts of
    /// each, in this order. `None` if the device has failed.
    fn read(all: &[&Self]) -> Option<Vec<(Vec<f64>, Vec<u64>)>>;
}

/// All reductions of a framework that have begun and may not have been read. The first that is asked for has all of its device read
/// at once.
///
/// *Cost*: a lock and two small allocations per tensor.
#[derive(Debug, Default)]
pub struct DeviceReductions<R> {
    unread: Mutex<Vec<Weak<Slot<R>>>>,
    /// Held while a device is waited for: who comes second finds everything read.
    turn: Mutex<()>,
}

/// Where the numbers of one tensor are.
type Slot<R> = Mutex<State<R>>;

#[derive(Debug)]
enum State<R> {
    OnDevice(R),
    BeingRead,
    /// `None` if the device has failed.
    Read(Option<Reduced>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: DeviceReduction> DeviceReductions<R> {
    /// None yet.
    pub const fn new() -> Self {
        Self { unread: Mutex::new(Vec::new()), turn: Mutex::new(()) }
    }

    /// Has a device begin one. `None` if `begin` has none, or panics: a device that has failed says so where the program reads its
    /// tensors.
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

/// What the lists of [`DeviceReduction`] say.
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

/// For the tests of plugins: what a reduction may get wrong, by a name, the type that the tensor is to be of, and its numbers.
#[doc(hidden)]
pub fn numbers_to_reduce() -> Vec<(&'static str, &'static str, Vec<f32>)> {
    let many: Vec<f32> = (0..1000).map(|place| (place as f32 * 0.37).sin() - 0.2).collect();
    // Around 1, with the deviation that weights of a normalisation have.
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

/// For the tests of plugins: that a device would make of a tensor what the host reads of it.
///
/// # Panics
///
/// If it would not.
#[doc(hidden)]
pub fn assert_reduces_as_read(tensor: &dyn TensorNumbers, what: &str) {
    let mut reader = StatisticsReader::of_shape(&tensor.shape());
    assert!(tensor.read(&mut reader), "{what}");
    let begin = |reduction| tensor.reduce(reduction).expect("it can");
    // Both are read together.
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
        // A number is rounded when it is divided by the scale.
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

    /// Of a device with this number; device 9 panics, device 8 fails. Where the sum is negative only what is not finite was counted.
    struct Sum(u8, f64);

    /// Of devices below 10.
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
