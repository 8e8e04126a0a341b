//! Examples of transformers in candle under a profiler.
//!
//! `char-transformer` learns to write, character by character, from a text that this crate
//! generates. `transformer-spans` (feature `spans`) profiles a model of candle-transformers.

pub mod learner;
pub mod text;
pub mod transformer;
