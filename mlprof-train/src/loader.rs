//! Loaders of batches.

use super::error::{BoxError, Result};

/// Context of an epoch, by which a loader shuffles differently each time and gives each process its
/// part of the data.
///
/// The default is the first epoch of a single process, to try a loader without a trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochContext {
    /// Epoch, counted from 0. In an evaluation, it is the epoch in which the evaluation runs.
    pub epoch: usize,
    /// Seed of the trainer; 0 if it has none.
    pub seed: u64,
    /// Rank of this process in the run.
    pub rank: u32,
    /// Number of processes of the run.
    pub world_size: u32,
}

impl Default for EpochContext {
    fn default() -> Self {
        Self { epoch: 0, seed: 0, rank: 0, world_size: 1 }
    }
}

/// Provides the batches of each epoch.
///
/// It is implemented for a `Vec` of batches that can be cloned, which is cheap for tensors that
/// share their data. It is also implemented for closures from an [`EpochContext`] to an iterator.
/// The iterator may borrow from the closure's environment. It yields tuples, or
/// `mlprof_train::Result`s of batches of any type:
///
/// ```
/// use mlprof_train::{DataLoader, EpochContext, Result};
///
/// fn numbers(data: &[usize]) -> impl DataLoader<usize> {
///     |context: &EpochContext| data.iter().copied().skip(context.epoch).map(Ok)
/// }
///
/// fn pairs(data: &[usize]) -> impl DataLoader<(usize, usize)> {
///     |_: &EpochContext| data.iter().map(|x| (*x, 2 * x))
/// }
///
/// fn lines(text: &str) -> impl DataLoader<u64> {
///     |_: &EpochContext| text.lines().map(|line| Ok(line.parse()?))
/// }
/// # let all: Result<Vec<_>> = numbers(&[1, 2]).batches(&Default::default()).unwrap().collect();
/// # assert_eq!(all.unwrap(), [1, 2]);
/// # assert!(lines("x").batches(&Default::default()).unwrap().next().unwrap().is_err());
/// ```
///
/// Use [`loader_fn`] for a closure whose iterator has another error type, such as the iterator of a
/// framework's own data set.
///
/// A loader with its own prefetch threads starts them in [`batches`](Self::batches). They must end
/// when the iterator is dropped, because an epoch may be left early.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a loader of batches of type `{Batch}`",
    note = "a loader is a `Vec` of batches, a closure `|_: &EpochContext| …` that returns an iterator of \
            `mlprof_train::Result<{Batch}>` or of tuples, or `loader_fn(|_| …)` for other errors"
)]
pub trait DataLoader<Batch> {
    /// Returns the batches of an epoch.
    ///
    /// The trainer calls it once per epoch and measures the call as `train_dataloader`,
    /// `val_dataloader`, `test_dataloader` or `predict_dataloader`. It measures each `next` as
    /// waiting for data. An exact `size_hint` is required for limits that are a share, and for a
    /// progress bar with an end.
    ///
    /// # Errors
    ///
    /// The data cannot be read. An error of this method or of the iterator ends the stage, after
    /// its report.
    fn batches<'loader>(
        &'loader self,
        context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + 'loader>>;
}

impl<Batch: Clone> DataLoader<Batch> for Vec<Batch> {
    fn batches<'loader>(
        &'loader self,
        _context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + 'loader>> {
        Ok(Box::new(self.iter().cloned().map(Ok)))
    }
}

impl<Batch, Make> DataLoader<Batch> for Make
where
    Make: MakeEpoch,
    Make::Epoch: Iterator<Item: LoaderItem<Batch = Batch>>,
{
    fn batches<'loader>(
        &'loader self,
        context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + 'loader>> {
        Ok(Box::new(Batches(self.make_epoch(context))))
    }
}

/// Item of the iterator of a [`DataLoader`] closure: a [`Result`] of a batch, or a batch that is a
/// tuple.
#[diagnostic::on_unimplemented(
    message = "a loader cannot yield `{Self}`: it is neither a `mlprof_train::Result` nor a tuple",
    label = "this iterator's items are not batches",
    note = "if reading batches cannot fail, end the iterator with `.map(Ok)`; if it fails with an error of another \
            type, write `loader_fn(|_epoch| …)`"
)]
pub trait LoaderItem {
    /// Type of the batch.
    type Batch;

    /// Returns the batch, or the error with which it could not be read.
    ///
    /// # Errors
    ///
    /// Returns the error that the iterator yielded.
    fn into_batch(self) -> Result<Self::Batch>;
}

impl<Batch> LoaderItem for Result<Batch> {
    type Batch = Batch;

    fn into_batch(self) -> Self {
        self
    }
}

/// Implements [`LoaderItem`] for tuples, which are batches themselves. A blanket implementation for
/// every type would overlap with the one for `Result`.
macro_rules! tuples_are_batches {
    ($(($($field:ident),+))+) => {
        $(impl<$($field),+> LoaderItem for ($($field,)+) {
            type Batch = Self;

            fn into_batch(self) -> Result<Self> {
                Ok(self)
            }
        })+
    };
}
tuples_are_batches!((A)(A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E)(A, B, C, D, E, F));

/// Iterator over the batches of one epoch. It has no type parameter for the batch, because batches
/// may have a shorter lifetime than the loader.
struct Batches<Epoch>(Epoch);

impl<Epoch: Iterator<Item: LoaderItem>> Iterator for Batches<Epoch> {
    type Item = Result<<Epoch::Item as LoaderItem>::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(LoaderItem::into_batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// Closure from an [`EpochContext`] to an iterator. The iterator is an associated type of the
/// closure, so it may borrow for as long as the closure lives. A separate type parameter could not
/// express this.
pub trait MakeEpoch {
    /// Type of the iterator.
    type Epoch;

    /// Calls the closure.
    fn make_epoch(&self, context: &EpochContext) -> Self::Epoch;
}

impl<Make: Fn(&EpochContext) -> Epoch, Epoch> MakeEpoch for Make {
    type Epoch = Epoch;

    fn make_epoch(&self, context: &EpochContext) -> Epoch {
        self(context)
    }
}

/// Creates a [`DataLoader`] from a closure that makes an iterator for each epoch. The iterator may
/// have any error type, such as those of candle's and tch's own data sets.
///
/// ```
/// use mlprof_train::loader_fn;
/// # use mlprof_train::DataLoader;
///
/// let lines = String::from("1\n2\n3");
/// let loader = loader_fn(|_epoch| lines.lines().map(str::parse::<u64>));
/// // trainer.fit(&mut module, &loader, None)?;
/// # let batches: Result<Vec<u64>, _> = loader.batches(&Default::default()).unwrap().collect();
/// # assert_eq!(batches.unwrap(), [1, 2, 3]);
/// ```
pub fn loader_fn<Batch, Epoch, E>(make: impl Fn(&EpochContext) -> Epoch) -> impl DataLoader<Batch>
where
    Epoch: Iterator<Item = Result<Batch, E>>,
    E: Into<BoxError>,
{
    move |context: &EpochContext| make(context).map(|batch| batch.map_err(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data set of a framework: an iterator with a lifetime and an error type of its own.
    struct Windows<'data> {
        data: &'data [u32],
        size: usize,
    }

    impl Iterator for Windows<'_> {
        type Item = Result<Vec<u32>, std::fmt::Error>;

        fn next(&mut self) -> Option<Self::Item> {
            let (window, rest) = self.data.split_at_checked(self.size)?;
            self.data = rest;
            Some(if window.contains(&13) { Err(std::fmt::Error) } else { Ok(window.to_vec()) })
        }
    }

    fn all<Batch>(loader: &dyn DataLoader<Batch>, epoch: usize) -> Result<Vec<Batch>> {
        loader.batches(&EpochContext { epoch, ..EpochContext::default() })?.collect()
    }

    #[test]
    fn a_closure_lends_its_iterators_what_it_borrows() {
        let data: Vec<u32> = (0..6).collect();
        let numbers = |context: &EpochContext| data.iter().skip(context.epoch * 3).map(Ok);
        assert_eq!(all(&numbers, 1).expect("no errors"), [&3, &4, &5]);
        let windows = |_: &EpochContext| {
            Windows { data: &data, size: 2 }.map(|window| window.map_err(BoxError::from))
        };
        assert_eq!(all(&windows, 0).expect("no errors"), [[0, 1], [2, 3], [4, 5]]);
    }

    #[test]
    fn an_iterator_may_yield_batches_that_cannot_fail() {
        let data = [1.0, 2.0, 3.0];
        let pairs = |_: &EpochContext| data.iter().map(|x| (*x, 2.0 * x));
        let batches = all(&pairs, 0).expect("no errors");
        assert_eq!(batches, [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]);
    }

    #[test]
    fn errors_of_an_iterator_keep_their_type() {
        let data = [1, 2, 13, 14];
        let loader = loader_fn(|context| Windows { data: &data[context.epoch..], size: 2 });
        let error = all::<Vec<u32>>(&loader, 0).expect_err("13 is refused");
        assert!(error.is::<std::fmt::Error>(), "{error}");
        let mut batches = loader.batches(&EpochContext::default()).expect("made");
        assert_eq!(batches.next().expect("two windows").expect("no 13 in it"), [1, 2]);
    }
}
