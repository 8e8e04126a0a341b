//! Slices of a track as beginnings and ends, in the order of time.

use super::{Trace, Track};

/// What a walk over the slices of a track comes by: a place in [`Trace::slices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The slice begins.
    Open(usize),
    /// The slice ends.
    Close(usize),
}

impl Trace {
    /// Beginnings and ends of a track's slices. What is innermost ends first; what ends when something else
    /// begins does so before.
    #[doc(hidden)]
    pub fn edges(&self, track: &Track) -> impl Iterator<Item = Edge> {
        let mut open: Vec<usize> = Vec::new();
        let mut next = track.slices.clone().peekable();
        std::iter::from_fn(move || {
            let innermost = open.last().map(|place| &self.slices[*place]);
            let closes = match (innermost, next.peek()) {
                (Some(innermost), Some(next)) => innermost.end() <= self.slices[*next].start,
                (innermost, None) => innermost.is_some(),
                (None, Some(_)) => false,
            };
            if closes {
                return open.pop().map(Edge::Close);
            }
            let place = next.next()?;
            open.push(place);
            Some(Edge::Open(place))
        })
    }
}
