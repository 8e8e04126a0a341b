// Mistakes in a body are reported as without the attribute.
use profiler_core::prelude::profile;

#[profile]
fn wrong_type() -> u32 {
    "text"
}

#[profile]
async fn wrong_async_type() -> u32 {
    "text"
}

fn main() {
    wrong_type();
    let _ = wrong_async_type();
}
