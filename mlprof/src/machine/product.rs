//! Matrix products of packed blocks, which reach the peak of a core.
//!
//! A tile of the product stays in registers. The loops have constant lengths, so the compiler
//! vectorises them for the instruction set of each function.

use std::hint::black_box;

/// Inner dimension. A block of the right matrix stays in the first-level cache.
const INNER: usize = 192;
/// Number of blocks of the left matrix. All of them stay in the second-level cache.
const BLOCKS: usize = 8;

/// Instruction set with a kernel of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Instructions that every processor of the architecture has.
    Baseline,
}

impl Kernel {
    /// Returns the widest kernel that this processor can run.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            Self::Baseline => std::env::consts::ARCH,
        }
    }
}

/// A product that is computed again and again. Returns its floating-point operations.
pub(super) type Product = Box<dyn FnMut() -> u64 + Send>;

macro_rules! products {
    ($type:ty, $module:ident, $of:ident, $narrow:literal, $middle:literal, $wide:literal) => {
        mod $module {
            use super::INNER;

            /// Adds the product of two blocks to a tile.
            #[inline(always)]
            fn tile<const ROWS: usize, const COLUMNS: usize, const IS_FUSED: bool>(
                left: &[[$type; ROWS]],
                right: &[[$type; COLUMNS]; INNER],
                product: &mut [[$type; COLUMNS]; ROWS],
            ) {
                let mut sums = [[0.0; COLUMNS]; ROWS];
                for (left, right) in left.iter().zip(right) {
                    for (sums, left) in sums.iter_mut().zip(left) {
                        for (sum, right) in sums.iter_mut().zip(right) {
                            // Without the instruction, `mul_add` calls a function.
                            *sum = match IS_FUSED {
                                true => left.mul_add(*right, *sum),
                                false => left * right + *sum,
                            };
                        }
                    }
                }
                for (product, sums) in product.iter_mut().zip(sums) {
                    for (product, sum) in product.iter_mut().zip(sums) {
                        *product += sum;
                    }
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,fma")]
            pub(super) fn avx512(
                left: &[[$type; 12]],
                right: &[[$type; $wide]; INNER],
                product: &mut [[$type; $wide]; 12],
            ) {
                tile::<12, $wide, true>(left, right, product);
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            pub(super) fn avx2(
                left: &[[$type; 6]],
                right: &[[$type; $middle]; INNER],
                product: &mut [[$type; $middle]; 6],
            ) {
                tile::<6, $middle, true>(left, right, product);
            }

            pub(super) fn baseline(
                left: &[[$type; 6]],
                right: &[[$type; $narrow]; INNER],
                product: &mut [[$type; $narrow]; 6],
            ) {
                tile::<6, $narrow, { cfg!(target_arch = "aarch64") }>(left, right, product);
            }
        }

        /// Returns a product of this type.
        pub(super) fn $of(kernel: Kernel) -> Product {
            macro_rules! product {
                ($rows:literal, $columns:literal, $tile:expr) => {{
                    let left = vec![[1.0; $rows]; INNER * BLOCKS];
                    let right = vec![[1e-3; $columns]; INNER];
                    let mut product = [[0.0; $columns]; $rows];
                    Box::new(move || {
                        let right = right.first_chunk().expect("the block has this size");
                        for left in left.chunks_exact(INNER) {
                            $tile(black_box(left), black_box(right), black_box(&mut product));
                        }
                        (2 * $rows * $columns * INNER * BLOCKS) as u64
                    })
                }};
            }
            match kernel {
                // SAFETY: `detect` returns this kernel only for a processor with both features.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512 => product!(12, $wide, |left, right, product| unsafe {
                    $module::avx512(left, right, product);
                }),
                // SAFETY: `detect` returns this kernel only for a processor with both features.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => product!(6, $middle, |left, right, product| unsafe {
                    $module::avx2(left, right, product);
                }),
                Kernel::Baseline => product!(6, $narrow, $module::baseline),
            }
        }
    };
}

products!(f32, single, of_f32, 8, 16, 32);
products!(f64, double, of_f64, 4, 8, 16);
