//! Functions of one line, which panic in it or tell where they are.

/// Of a type.
pub struct Of(pub Vec<u32>);

impl Of {
    /// Of a method.
    pub fn method(&self, index: usize) -> u32 { self.0[index] }
}

/// Of a trait.
pub trait Trait {
    /// By it. */ "
    fn provided(&self) -> u32 { self.required() / self.required() }
    /// Nothing.
    fn required(&self) -> u32;
}

impl Trait for Of { fn required(&self) -> u32 { self.0.len() as u32 } }

/// Plain. "Quoted" \ and */ ended.
pub fn plain(index: usize) -> u32 { [1, 2][index] }

/** Of something else. */
#[inline] /* before */ pub fn attributed(text: &str) -> u32 { text.parse().unwrap() } // after

/// Of a name that is longer in bytes than in letters.
pub fn größe(maß: &[u32]) -> u32 { let länge = maß.len(); maß[länge] }

/// Of a closure.
pub fn closure(of: &[u32]) -> u32 {
    let last = |index: usize| of[index];
    last(of.len())
}

/// Of an async function.
pub async fn later(of: &[u32]) -> u32 { of[of.len()] }

/// Where it is.
pub fn here() -> (u32, u32, String) { (line!(), column!(), crate::caller()) }

mod several { pub(super) fn inner(divisor: u32) -> u32 { 1 / divisor } }

/// Calls a function in a module of one line.
pub fn in_module() -> u32 { several::inner(0) }
