//! What CUPTI, CUDA's interface for profilers, tells of a device's activity.

mod names;
mod records;
