//! Functions on a single line, which panic in that line or return their position.

/// A tuple struct with methods.
pub struct Of(pub Vec<u32>);

impl Of {
    /// Panics in a method.
    pub fn method(&self, index: usize) -> u32 { self.0[index] }
}

/// A trait with a provided method.
pub trait Trait {
    /// Panics in a provided method. */ "
    fn provided(&self) -> u32 { self.required() / self.required() }
    /// Returns the divisor for the provided method.
    fn required(&self) -> u32;
}

impl Trait for Of { fn required(&self) -> u32 { self.0.len() as u32 } }

/// Panics in a plain function. "Quoted" \ and */ ended.
pub fn plain(index: usize) -> u32 { [1, 2][index] }

/** Of something else. */
#[inline] /* before */ pub fn attributed(text: &str) -> u32 { text.parse().unwrap() } // after

/// Panics in a function whose name has more bytes than letters.
pub fn größe(maß: &[u32]) -> u32 { let länge = maß.len(); maß[länge] }

/// Panics in a closure.
pub fn closure(of: &[u32]) -> u32 {
    let last = |index: usize| of[index];
    last(of.len())
}

/// Panics in an async function.
pub async fn later(of: &[u32]) -> u32 { of[of.len()] }

/// Returns the line, the column and the caller's location.
pub fn here() -> (u32, u32, String) { (line!(), column!(), crate::caller()) }

mod several { pub(super) fn inner(divisor: u32) -> u32 { 1 / divisor } }

/// Calls a function in a module on a single line.
pub fn in_module() -> u32 { several::inner(0) }
