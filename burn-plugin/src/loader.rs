//! Data loaders whose waiting time is measured.

use std::slice;
use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use mlprof_core::{Action, Profiler, ProfilerExt};

use crate::ops;
#[cfg(feature = "train")]
use crate::stop::StopSignal;

/// Wraps a data loader and measures every `next` of its iterators as `action`, including the last
/// one, which finds the end.
///
/// Use it in hand-written loops and custom training strategies.
/// [`.profiler(…)`](crate::ProfileTrainingExt::profiler) already measures the loaders. The wrapper
/// survives `to_device` and `slice`. Items, order, progress and errors are those of the wrapped
/// loader.
///
/// Without worker threads, the time covers reading and batching, including the move to the device.
/// With worker threads, it is the time that the loop *waits* for them.
/// [`ProfiledBatcher`](crate::ProfiledBatcher) measures batching separately.
///
/// *Cost*: one action per batch.
///
/// ```
/// # use std::sync::Arc;
/// # use burn::data::dataloader::DataLoader;
/// # use mlprof_core::{Profiler, SimpleProfiler};
/// # fn epoch<B: 'static>(loader: Arc<dyn DataLoader<B>>) {
/// let profiler: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
/// let loader = mlprof_burn::profile_loader(loader, profiler.clone(), "train_dataloader_next");
/// for batch in loader.iter() {
///     // … the training step …
/// #   drop(batch);
/// }
/// profiler.describe();
/// # }
/// ```
pub fn profile_loader<O: 'static>(
    loader: Arc<dyn DataLoader<O>>,
    profiler: Arc<dyn Profiler>,
    action: impl Into<Action>,
) -> Arc<dyn DataLoader<O>> {
    let hooks = LoaderHooks {
        profiler,
        iter: None,
        next: action.into(),
        batch: None,
        #[cfg(feature = "train")]
        stop: None,
        installs_ops: false,
    };
    hooks.wrap(loader)
}

/// The parts of a loader that are measured.
#[derive(Clone)]
pub(crate) struct LoaderHooks {
    pub(crate) profiler: Arc<dyn Profiler>,
    /// Action for the creation of an iterator.
    pub(crate) iter: Option<Action>,
    /// Action for every `next`.
    pub(crate) next: Action,
    /// Action from one `next` to the following one, in which the loop uses the batch. Its end also
    /// ends a profiler step.
    pub(crate) batch: Option<Action>,
    /// Stop signal that is checked before every `next`.
    #[cfg(feature = "train")]
    pub(crate) stop: Option<StopSignal>,
    /// `true` if only the device passed to the loader reveals which device's ops to record.
    pub(crate) installs_ops: bool,
}

impl LoaderHooks {
    pub(crate) fn wrap<O: 'static>(self, loader: Arc<dyn DataLoader<O>>) -> Arc<dyn DataLoader<O>> {
        Arc::new(ProfiledLoader { loader, hooks: self })
    }
}

struct ProfiledLoader<O> {
    loader: Arc<dyn DataLoader<O>>,
    hooks: LoaderHooks,
}

impl<O: 'static> DataLoader<O> for ProfiledLoader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let _scope = self.hooks.iter.map(|action| self.hooks.profiler.profile(action));
        let iterator = self.loader.iter();
        Box::new(ProfiledLoaderIterator { iterator, hooks: &self.hooks, batch_is_open: false })
    }

    fn num_items(&self) -> usize {
        self.loader.num_items()
    }

    crate::version::loader_methods!();

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        if self.hooks.installs_ops {
            ops::install_all(&*self.hooks.profiler, slice::from_ref(device));
        }
        self.hooks.clone().wrap(self.loader.to_device(device))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        self.hooks.clone().wrap(self.loader.slice(start, end))
    }
}

struct ProfiledLoaderIterator<'a, O> {
    iterator: Box<dyn DataLoaderIterator<O> + 'a>,
    hooks: &'a LoaderHooks,
    batch_is_open: bool,
}

impl<O> ProfiledLoaderIterator<'_, O> {
    fn close_batch(&mut self) {
        if let (true, Some(action)) = (self.batch_is_open, self.hooks.batch) {
            self.batch_is_open = false;
            let _ = self.hooks.profiler.stop(action);
            self.hooks.profiler.step();
        }
    }
}

impl<O> Iterator for ProfiledLoaderIterator<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.close_batch();
        #[cfg(feature = "train")]
        if let Some(error) = self.hooks.stop.as_ref().and_then(StopSignal::check_loader) {
            return Some(Err(error));
        }
        let item = {
            let _scope = self.hooks.profiler.profile(self.hooks.next);
            self.iterator.next()
        };
        if let (Some(Ok(_)), Some(action)) = (&item, self.hooks.batch) {
            self.hooks.profiler.start(action);
            self.batch_is_open = true;
        }
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.iterator.size_hint()
    }
}

impl<O> DataLoaderIterator<O> for ProfiledLoaderIterator<'_, O> {
    fn progress(&self) -> Progress {
        self.iterator.progress()
    }
}

impl<O> Drop for ProfiledLoaderIterator<'_, O> {
    fn drop(&mut self) {
        self.close_batch();
    }
}
