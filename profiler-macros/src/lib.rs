//! The attribute `#[profile]`.
