//! Who activations belong to.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Who activations belong to: a thread, and the threads that are [bound](Binding::bind) to it.
///
/// What is said of activations is written under their lock.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// Whose it was before this thread had activations of its own.
    parent: Option<Arc<Owner>>,
    /// How many activations it has.
    pub(super) activations: AtomicUsize,
    /// The number of the first of them.
    pub(super) began: AtomicU64,
    /// The number of the latest activation of the process when it had none any more.
    pub(super) ended: AtomicU64,
    /// How many training loops of ours it has running.
    pub(super) loops: AtomicUsize,
}

impl Owner {
    /// Of whom the work is `parent`'s while it has no activations of its own.
    pub(super) fn inside(parent: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { parent, ..Self::default() })
    }

    pub(super) fn is_active(&self) -> bool {
        self.activations.load(Ordering::Relaxed) > 0
    }

    /// It, and whose it was before.
    pub(super) fn chain(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |owner| owner.parent.as_ref())
    }
}

/// What a thread knows of itself.
#[derive(Default)]
pub(super) struct Place(RefCell<Option<(Arc<Owner>, IsOwn)>>);

/// Whether the thread's own activations are the owner's.
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

    /// Whose the activations of the calling thread are.
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
