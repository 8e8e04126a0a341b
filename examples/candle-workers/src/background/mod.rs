//! Batches that are prepared ahead, by threads.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use mlprof_core::{bound, profile};
use mlprof_train::{BoxError, DataLoader, EpochContext, Result};

/// Batches that any thread can prepare, in any order.
pub trait BatchSource: Send + Sync + 'static {
    /// Everything that says how one batch is to be made, random seeds included: what comes out
    /// must not depend on which thread makes it, or when.
    type Job: Send + 'static;
    /// What a job becomes.
    type Batch: Send + 'static;

    /// The batches of an epoch, in the order in which training is to see them.
    fn jobs(&self, epoch: &EpochContext) -> Vec<Self::Job>;

    /// Makes one batch.
    ///
    /// # Errors
    ///
    /// Whatever is returned ends the epoch in the place of this batch.
    fn prepare(&self, job: Self::Job) -> Result<Self::Batch>;
}

/// A loader whose batches are prepared by threads, ahead of the training loop.
///
/// Batches come in the order of the jobs, however many threads there are: worker `n` of `N` makes
/// the batches `n`, `n + N`, `n + 2 N` …, and the loop takes from one worker after the other.
///
/// Preparing a batch is measured as `prepare_batch` on its thread, and what a worker then waits
/// until there is room for it as `wait_for_room`: workers that wait much are more than are needed.
///
/// *Threads*: `batch_worker_0`, `batch_worker_1` …, started for each epoch and joined when its
/// iterator is dropped. *Memory*: at most `ahead + 1` batches per worker that training has not
/// taken yet.
#[derive(Debug)]
pub struct BackgroundLoader<Source> {
    source: Arc<Source>,
    workers: usize,
    ahead: usize,
}

impl<Source: BatchSource> BackgroundLoader<Source> {
    /// Prepares by so many threads; with 0, in the training loop itself, when a batch is asked for.
    pub fn new(source: Source, workers: usize) -> Self {
        Self { source: Arc::new(source), workers, ahead: 2 }
    }

    /// Lets so many finished batches of each worker wait to be taken; 2 by default, at least 1.
    #[must_use]
    pub fn ahead(mut self, batches: usize) -> Self {
        self.ahead = batches.max(1);
        self
    }

    fn start(&self, jobs: Vec<Source::Job>) -> Result<Batches<Source::Batch>> {
        if self.workers == 0 {
            let source = self.source.clone();
            return Ok(Box::new(jobs.into_iter().map(move |job| prepare(&*source, job))));
        }
        Ok(Box::new(WorkedAhead::start(&self.source, jobs, self.workers, self.ahead)?))
    }
}

type Batches<Batch> = Box<dyn Iterator<Item = Result<Batch>>>;

impl<Source: BatchSource> DataLoader<Source::Batch> for BackgroundLoader<Source> {
    fn batches<'loader>(
        &'loader self,
        epoch: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Source::Batch>> + 'loader>> {
        let batches = self.start(self.source.jobs(epoch))?;
        Ok(batches)
    }
}

fn prepare<Source: BatchSource>(source: &Source, job: Source::Job) -> Result<Source::Batch> {
    let _scope = profile!("prepare_batch");
    source.prepare(job)
}

/// The batches of one epoch, and the threads that make them.
struct WorkedAhead<Batch> {
    workers: Vec<Worker<Batch>>,
    taken: usize,
    total: usize,
}

struct Worker<Batch> {
    finished: Receiver<Result<Batch>>,
    thread: JoinHandle<()>,
}

impl<Batch: Send + 'static> WorkedAhead<Batch> {
    fn start<Source: BatchSource<Batch = Batch>>(
        source: &Arc<Source>,
        jobs: Vec<Source::Job>,
        workers: usize,
        ahead: usize,
    ) -> Result<Self> {
        let total = jobs.len();
        let workers = workers.min(total);
        let mut shares: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for (index, job) in jobs.into_iter().enumerate() {
            shares[index % workers].push(job);
        }
        // If a thread cannot be started, those before it are joined when this is dropped.
        let mut started = Self { workers: Vec::with_capacity(workers), taken: 0, total };
        for (number, jobs) in shares.into_iter().enumerate() {
            started.workers.push(Worker::start(source.clone(), jobs, number, ahead)?);
        }
        Ok(started)
    }
}

impl<Batch: Send + 'static> Worker<Batch> {
    fn start<Source: BatchSource<Batch = Batch>>(
        source: Arc<Source>,
        jobs: Vec<Source::Job>,
        number: usize,
        ahead: usize,
    ) -> io::Result<Self> {
        let (sender, finished) = sync_channel(ahead);
        let thread = std::thread::Builder::new()
            .name(format!("batch_worker_{number}"))
            .spawn(bound(move || work(&*source, jobs, &sender)))?;
        Ok(Self { finished, thread })
    }
}

/// Makes one batch after the other until an error, or until nobody wants them any more.
fn work<Source: BatchSource>(
    source: &Source,
    jobs: Vec<Source::Job>,
    finished: &SyncSender<Result<Source::Batch>>,
) {
    for job in jobs {
        let batch = prepare(source, job);
        let is_error = batch.is_err();
        let _scope = profile!("wait_for_room");
        if finished.send(batch).is_err() || is_error {
            return;
        }
    }
}

impl<Batch> Iterator for WorkedAhead<Batch> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        if self.taken == self.total {
            return None;
        }
        let number = self.taken % self.workers.len();
        let batch = self.workers[number].finished.recv().unwrap_or_else(|_gone| {
            // A worker with jobs left goes without a word only by a panic.
            Err(panic_message(self.workers.swap_remove(number)))
        });
        self.taken = if batch.is_ok() { self.taken + 1 } else { self.total };
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.total - self.taken;
        (left, Some(left))
    }
}

fn panic_message<Batch>(worker: Worker<Batch>) -> BoxError {
    let name = worker.thread.thread().name().unwrap_or("a worker").to_owned();
    let message = match worker.thread.join() {
        Ok(()) => "it ended early".to_owned(),
        Err(panic) => format!("it panicked: {}", text_of(&*panic)),
    };
    format!("{name} prepares no more batches: {message}").into()
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

impl<Batch> Drop for WorkedAhead<Batch> {
    fn drop(&mut self) {
        // First every worker is told, by its receiver going away, and then all are waited for.
        let (receivers, threads): (Vec<_>, Vec<_>) =
            self.workers.drain(..).map(|worker| (worker.finished, worker.thread)).unzip();
        drop(receivers);
        for thread in threads {
            // One that panicked over a batch that nobody asked for has said so on standard error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
