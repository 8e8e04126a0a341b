//! Preparation of batches ahead of time by worker threads.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use mlprof_core::{bound, profile};
use mlprof_train::{BoxError, DataLoader, EpochContext, Result};

/// A source of batches that any thread can prepare, in any order.
pub trait BatchSource: Send + Sync + 'static {
    /// The complete recipe of one batch, including random seeds. The result must not depend on the
    /// preparing thread or time.
    type Job: Send + 'static;
    /// The batch that is prepared from a job.
    type Batch: Send + 'static;

    /// Returns the jobs of an epoch in training order.
    fn jobs(&self, epoch: &EpochContext) -> Vec<Self::Job>;

    /// Prepares one batch.
    ///
    /// # Errors
    ///
    /// Returns an error, which ends the epoch in place of this batch.
    fn prepare(&self, job: Self::Job) -> Result<Self::Batch>;
}

/// A loader whose batches are prepared by worker threads ahead of the training loop.
///
/// Batches are returned in job order, regardless of the number of threads. Worker `n` of `N`
/// prepares the batches `n`, `n + N`, `n + 2 N` and so on, and the loop takes batches from the
/// workers in turn.
///
/// The preparation of a batch is measured as `prepare_batch` on its thread. A worker's wait for
/// free capacity is measured as `wait_for_room`. If workers wait for a large share of the time,
/// fewer of them are sufficient.
///
/// *Threads*: `batch_worker_0`, `batch_worker_1` and so on are started for each epoch and joined
/// when its iterator is dropped. *Memory*: at most `ahead + 1` prepared batches per worker.
#[derive(Debug)]
pub struct BackgroundLoader<Source> {
    source: Arc<Source>,
    workers: usize,
    ahead: usize,
}

impl<Source: BatchSource> BackgroundLoader<Source> {
    /// Creates a loader with `workers` threads. With 0, the training loop prepares each batch when
    /// it requests it.
    pub fn new(source: Source, workers: usize) -> Self {
        Self { source: Arc::new(source), workers, ahead: 2 }
    }

    /// Sets the maximum number of finished batches that wait per worker; 2 by default, at least 1.
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

/// The batches of one epoch and the threads that prepare them.
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
        // If a thread cannot be started, dropping this value joins the earlier ones.
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

/// Prepares batches until an error occurs or the receiver is dropped.
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
            // A worker that disconnects with remaining jobs has panicked.
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
    format!("{name} stopped preparing batches: {message}").into()
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

impl<Batch> Drop for WorkedAhead<Batch> {
    fn drop(&mut self) {
        // All receivers are dropped first, so that all workers stop. Only then are the threads
        // joined.
        let (receivers, threads): (Vec<_>, Vec<_>) =
            self.workers.drain(..).map(|worker| (worker.finished, worker.thread)).unzip();
        drop(receivers);
        for thread in threads {
            // The panic of a worker over an unused batch was already printed to standard error, so
            // the result is ignored.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
