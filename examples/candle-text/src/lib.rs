//! Transformers in candle, under a profiler.
//!
//! `char-transformer` learns to write, character by character, from a text that this crate makes
//! itself. `transformer-spans` (feature `spans`) looks into a model of candle-transformers.

pub mod learner;
pub mod text;
pub mod transformer;
