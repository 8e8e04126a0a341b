//! mlprof for burn.
