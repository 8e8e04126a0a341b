//! Slices of a track as begin and end edges in order of time.

use super::{Trace, Track};

/// Begin or end of a slice, with its index in [`Trace::slices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Begin of the slice.
    Open(usize),
    /// End of the slice.
    Close(usize),
}

impl Trace {
    /// Returns the edges of a track's slices. Inner slices end before outer ones. At equal times,
    /// ends precede begins.
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
