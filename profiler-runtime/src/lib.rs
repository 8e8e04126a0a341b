//! The C interface of profiler-core.
