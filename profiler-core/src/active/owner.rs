//! Owners of activations.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Owner of activations: a thread and the threads that are [bound](Binding::bind) to it.
///
/// The fields about activations are written under the activations' lock.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// Owner of the thread before it had activations of its own.
    parent: Option<Arc<Owner>>,
    /// Number of current activations.
    pub(super) activations: AtomicUsize,
    /// Number of the first current activation.
    pub(super) began: AtomicU64,
    /// Number of the process's latest activation at the time when this owner's last one ended.
    pub(super) ended: AtomicU64,
    /// Number of mlprof's training loops that it runs.
    pub(super) loops: AtomicUsize,
}

impl Owner {
    /// Returns an owner that passes its work on to `parent` while it has no activations of its own.
    pub(super) fn inside(parent: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { parent, ..Self::default() })
    }

    pub(super) fn is_active(&self) -> bool {
        self.activations.load(Ordering::Relaxed) > 0
    }

    /// Returns the owner followed by its ancestors.
    pub(super) fn chain(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |owner| owner.parent.as_ref())
    }
}

/// Owner that a thread is bound to, if any.
#[derive(Default)]
pub(super) struct Place(RefCell<Option<(Arc<Owner>, IsOwn)>>);

/// `true` if activations made on the thread belong to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IsOwn(pub(super) bool);

impl Place {
    pub(super) const fn new() -> Self {
        Self(RefCell::new(None))
    }

    pub(super) fn borrow_mut(&self) -> RefMut<'_, Option<(Arc<Owner>, IsOwn)>> {
        self.0.borrow_mut()
    }

    pub(super) fn owner(&self) -> Option<Arc<Owner>> {
        self.0.borrow().as_ref().map(|(owner, _)| owner.clone())
    }

    /// Returns the owner of the calling thread's activations, and creates it if necessary.
    pub(super) fn own(&self) -> Arc<Owner> {
        let mut place = self.0.borrow_mut();
        match &*place {
            Some((owner, IsOwn(true))) => owner.clone(),
            bound => {
                let parent = bound.as_ref().map(|(owner, _)| owner.clone());
                let owner = Owner::inside(parent);
                *place = Some((owner.clone(), IsOwn(true)));
                owner
            }
        }
    }
}
